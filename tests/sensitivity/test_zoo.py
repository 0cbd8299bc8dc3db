"""The faulty kernels of the zoo are caught, and called what they are."""

from __future__ import annotations

import collections
import functools

import pytest

import zeroulp
from benchmarks.zoo import CORRECT, FAULTY, KINDS, TABLE
from benchmarks.zoo.__main__ import README, renewed
from zeroulp.report import Verdict
from zeroulp.report.model import FINDING_KINDS

SEEDS = (0, 1)

NO_SPECIALS = "no probe puts NaN, infinities, overflow or subnormals among the inputs yet"
NO_ZEROS = "no probe has rows or tiles of zeros, or rows that agree, yet (`sparse`)"
NO_SPREAD = "within a trial the magnitudes of an operand hardly differ, and all trials are near one (`scaled`, `one_hot`)"
NO_RANGE = "no operand and no output comes near the ends of the range of its format (`scaled`, `one_hot`)"

MISSED = {
    **{entry.name: NO_SPECIALS for entry in FAULTY if "specials" in entry.needs},
    "tile-skipped-by-its-first-row": NO_ZEROS,
    "sparse-path": NO_ZEROS,
    "equal-rows-merged": NO_ZEROS,
    "zero-row-ends-the-loop": NO_ZEROS,
    "small-ones-pruned": NO_SPREAD,
    "tiny-ones-pruned": NO_SPREAD,
    "large-ones-clamped": NO_SPREAD,
    "exact-on-one-scale-only": NO_SPREAD,
    "dominant-column-only": NO_SPREAD,
    "scale-shared-by-blocks": NO_SPREAD,
    "scale-of-the-first-call": "the first trial has the largest values: none after it is larger (`scaled`)",
    "integer-sums-in-float-short": "the sums of `wide` reach a quarter of the largest possible one, 127 * 127 * k",
    "too-few-slices": "`wide` draws 31 bits at most: bits 32 to 53 of float64 operands are never set (`one_hot`)",
    "clamped-at-240": NO_RANGE,
    "clamped-at-30000": NO_RANGE,
    "bfloat16-through-float16": NO_RANGE,
    "e5m2-through-e4m3": NO_RANGE,
    "fp8-top-exponent-lost": NO_RANGE,
    "minus-128-clamped": NO_RANGE,
    "partials-in-the-range-of-float16": NO_RANGE,
    "sums-of-22-bits-narrow-output": "the output's rounding hides bits of the sums unless large terms cancel (`cancel`)",
    "alpha-of-a-tenth-ignored": "no probe has a certificate where alpha is no power of two",
    "lone-misread-far-down": "8-bit outputs have room for a few products of thousands (`cover`)",
}

SATURATED = "values that stop at a limit look like sums that lose bits"

MISNAMED = {
    "through-integers": "trials that name a fault have whole numbers, on which this kernel is right",
    "narrow-in-the-last-tile": "the four single products that would tell seldom meet the last tile of k",
    "pair-sums-saturate": SATURATED,
    "sums-saturate-at-16-bits": SATURATED,
    "products-rounded": "single products that are rounded look like a rounding of the output",
    "half-away-float16": "a single wrong output at a tie does not say whether ties go away from zero or sums are narrow",
    "rounded-twice": "two roundings in a row have no name yet",
    "rounded-to-odd": "rounding to odd has no name yet",
    "bias-after-rounding": "a handful of wrong outputs happens to equal the product without its bias",
}


@functools.cache
def found(name, seed):
    """Verdict and kind of the first finding, with what the entry needs."""
    entry = TABLE[name]
    problem = zeroulp.Matmul(**{**entry.problem, **entry.changes})
    report = zeroulp.check(entry.make(), problem, seed=seed, **entry.options, **entry.extra)
    return report.verdict, report.findings[0].kind if report.findings else ""


def faults(*known):
    """The faulty entries, those in a table of known failures marked."""
    cases = []
    for entry in FAULTY:
        reason = next((table[entry.name] for table in known if entry.name in table), "")
        marks = [pytest.mark.xfail(strict=True, reason=reason, raises=AssertionError)] if reason else []
        if entry.available():
            marks = [pytest.mark.skip(reason=entry.available())]
        cases.append(pytest.param(entry, id=entry.name, marks=marks))
    return cases


@pytest.mark.parametrize("entry", faults(MISSED))
def test_fault_is_caught(entry):
    assert [found(entry.name, seed)[0] for seed in SEEDS] == [Verdict.INCORRECT] * len(SEEDS)


@pytest.mark.parametrize("entry", faults(MISSED, MISNAMED))
def test_fault_has_its_name(entry):
    assert all(found(entry.name, seed)[1] in entry.finding for seed in SEEDS), [found(entry.name, s) for s in SEEDS]


def test_known_failures_are_entries():
    assert set(MISSED) | set(MISNAMED) <= {entry.name for entry in FAULTY}
    assert not set(MISSED) & set(MISNAMED)


def test_registry():
    """Ids are unique (else importing fails), every kind is there, and all that an entry says is meant."""
    assert {entry.kind for entry in FAULTY} == set(KINDS)
    assert len(FAULTY) >= 120
    assert len(CORRECT) >= 40
    for name, entry in TABLE.items():
        assert entry.name == name
        assert entry.sentence.endswith("."), name
        assert entry.models, name
        assert set(entry.finding) <= set(FINDING_KINDS), name
        assert bool(entry.changes or entry.extra) <= bool(entry.needs), name
        zeroulp.Matmul(**{**entry.problem, **entry.changes})
    factories = collections.Counter(entry.factory for entry in TABLE.values())
    assert max(factories.values()) == 1


@pytest.mark.parametrize("entry", list(TABLE.values()), ids=lambda entry: entry.name)
def test_factory_makes_a_fresh_kernel(entry):
    if not entry.available():
        assert entry.factory() is not entry.factory()


def test_counts_in_the_readme_are_up_to_date():
    assert README.read_text() == renewed(README.read_text())
