"""Faults of calling: memory, caches, races, attributes."""

from __future__ import annotations

import numpy as np
import pytest

import zeroulp
from zeroulp.report import Verdict

PROBLEM = zeroulp.Matmul(9, 10, 33, a="float16")


def right(a, b):
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)


def kinds(kernel, problem=PROBLEM, **options):
    report = zeroulp.check(kernel, problem, seed=1, **options)
    assert report.verdict is (Verdict.INCORRECT if report.findings else Verdict.CORRECT)
    return [finding.kind for finding in report.findings]


def test_the_right_one_has_no_finding():
    def into(a, b, out):
        out[...] = right(a, b)

    assert kinds(right) == []
    assert kinds(into, destination_passing=True) == []


def beyond(array, before, after):
    """The same memory, *before* elements earlier and *after* elements longer, as a flat view."""
    base = np.lib.stride_tricks.as_strided(array, shape=(array.size + before + after,), strides=(array.itemsize,))
    if before:
        pointer = array.__array_interface__["data"][0] - before * array.itemsize
        import ctypes

        raw = (ctypes.c_uint8 * ((array.size + before + after) * array.itemsize)).from_address(pointer)
        base = np.frombuffer(raw, array.dtype)
    return base


@pytest.mark.parametrize(("before", "after", "index"), [(0, 1, -1), (1, 0, 0), (0, 64, -1)])
def test_write_outside_the_output(before, after, index):
    def kernel(a, b, out):
        out[...] = right(a, b)
        beyond(out, before, after)[index] = 0

    assert kinds(kernel, destination_passing=True) == ["out-of-bounds-write"]


def test_write_outside_an_input():
    def kernel(a, b):
        beyond(a, 0, 2)[-1] = 1
        return right(a, b)

    assert kinds(kernel) == ["out-of-bounds-write"]


def test_write_into_the_padding_between_rows():
    def kernel(a, b, out):
        out[...] = right(a, b)
        row = np.lib.stride_tricks.as_strided(out[0], shape=(out.shape[1] + 1,), strides=(out.itemsize,))
        row[-1] = 0

    assert kinds(kernel, PROBLEM.replace(layouts="padded"), destination_passing=True) == ["out-of-bounds-write"]


def test_read_outside_an_input():
    def kernel(a, b):
        extra = beyond(a, 0, 1)[-1].astype(np.float32)
        return (right(a, b) + extra).astype(a.dtype)

    assert kinds(kernel) == ["out-of-bounds-read"]


def test_read_of_the_padding_between_rows():
    def kernel(a, b):
        wide = np.lib.stride_tricks.as_strided(a, shape=(a.shape[0], a.shape[1] + 1), strides=a.strides)
        return (right(a, b) + 0 * wide[:, -1:].astype(np.float32)).astype(a.dtype)

    assert kinds(kernel, PROBLEM.replace(layouts="padded")) == ["out-of-bounds-read"]


def test_changed_input():
    def kernel(a, b):
        result = right(a, b)
        a[0, 0] = 0
        return result

    assert kinds(kernel) == ["input-mutated"]


def test_scratch_use_of_an_input_that_is_put_back_is_not_seen_as_mutation():
    def kernel(a, b):
        kept = a.copy()
        a *= -1
        result = (-(a.astype(np.float32) @ b.astype(np.float32))).astype(a.dtype)
        a[...] = kept
        return result

    assert kinds(kernel) == []


def test_unwritten_columns():
    def kernel(a, b, out):
        out[:, :8] = right(a, b)[:, :8]

    assert kinds(kernel, destination_passing=True) == ["unwritten-output"]


def test_nothing_written():
    assert kinds(lambda a, b, out: None, destination_passing=True) == ["unwritten-output"]


@pytest.mark.parametrize("name", ["e4m3", "e4m3fnuz", "fp4", "int8"])
def test_unwritten_outputs_are_named_in_formats_without_nan_too(name):
    def kernel(a, b, out):
        out[:-1] = (a.astype(np.float32) @ b.astype(np.float32))[:-1].astype(out.dtype)

    problem = zeroulp.Matmul(9, 10, 33, a=name, out="int8" if name == "int8" else "")
    assert kinds(kernel, problem, destination_passing=True) == ["unwritten-output"]


def test_output_added_to_instead_of_written():
    def kernel(a, b, out):
        out += right(a, b)

    assert kinds(kernel, destination_passing=True) == ["unwritten-output"]


def test_cache_keyed_on_addresses():
    cache = {}

    def kernel(a, b):
        key = a.__array_interface__["data"][0], b.__array_interface__["data"][0]
        if key not in cache:
            cache[key] = right(a, b)
        return cache[key].copy()

    assert kinds(kernel) == ["stale-result"]


def test_cache_of_everything():
    cache = []

    def kernel(a, b):
        cache[:] = cache or [right(a, b)]
        return cache[0].copy()

    assert kinds(kernel) == ["stale-result"]


def test_shared_output_buffer():
    buffer = np.empty((9, 10), np.float16)

    def kernel(a, b):
        buffer[...] = right(a, b)
        return buffer

    report = zeroulp.check(kernel, PROBLEM, seed=1)
    assert [finding.kind for finding in report.findings] == ["aliased-output"]
    assert report.findings[0].replay == (0, 1)


def test_different_bits_on_the_second_call():
    calls = []

    def kernel(a, b):
        calls.append(1)
        result = right(a, b)
        result[0, 0] += len(calls) % 2 == 0
        return result

    assert kinds(kernel) == ["nondeterministic"]


def test_random_result():
    rng = np.random.default_rng(0)

    def kernel(a, b):
        return (right(a, b) + rng.integers(0, 2, (9, 10))).astype(a.dtype)

    assert kinds(kernel) == ["nondeterministic"]


def test_rare_race_is_found_with_enough_repeats():
    calls = []

    def kernel(a, b):
        calls.append(1)
        result = right(a, b)
        result[0, 0] += len(calls) == 40
        return result

    assert kinds(kernel, repeat=100) == ["nondeterministic"]


@pytest.mark.parametrize(("change", "kind"), [
    (lambda out: out.T, "wrong-shape"), (lambda out: out[:-1], "wrong-shape"), (lambda out: out[None], "wrong-shape"),
    (lambda out: out.astype(np.float32), "wrong-dtype"), (lambda out: out.astype(">f2"), "wrong-dtype"),
    (lambda out: out.view(np.uint16), "wrong-dtype"),
])
def test_attributes_come_before_values(change, kind):
    assert kinds(lambda a, b: change(right(a, b))) == [kind]


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_special_values_where_numbers_belong(special):
    def kernel(a, b):
        result = right(a, b)
        result[2, 3] = special
        return result

    report = zeroulp.check(kernel, PROBLEM, seed=1)
    assert report.verdict is Verdict.INCORRECT
    assert report.trials[0].outcome.first == (2, 3)


def test_strict_zero_sign():
    def kernel(a, b):
        result = right(a, b)
        result[result == 0] = -0.0
        return result

    problem = zeroulp.Matmul(30, 30, 16, a="float16")
    assert zeroulp.check(kernel, problem, seed=1).verdict is Verdict.CORRECT
    assert zeroulp.check(kernel, problem.replace(signed_zero="strict"), seed=1).verdict is Verdict.INCORRECT
    assert zeroulp.check(right, problem.replace(signed_zero="strict"), seed=1).verdict is Verdict.CORRECT
