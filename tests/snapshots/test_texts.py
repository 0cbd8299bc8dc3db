"""
What people read, word for word. ZEROULP_UPDATE_SNAPSHOTS=1 writes the files anew; read the difference.
"""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

import numpy as np
import pytest

import zeroulp
from tests.emulation import matmul_in_order
from zeroulp import Matmul
from zeroulp.cli.formats import render_formats
from zeroulp.cli.plan import render_plan
from zeroulp.errors import ZeroulpError
from zeroulp.plan import make_plan

DATA = Path(__file__).parent / "data"
PROBES = ("signed", "wide", "binary", "fractional")
HALF = Matmul(12, 10, 257, a="float16")


def compare(name, text):
    """That *text* is what data/*name*.txt holds."""
    path = DATA / f"{name}.txt"
    if os.environ.get("ZEROULP_UPDATE_SNAPSHOTS") == "1":
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"{path.name} is missing: run with ZEROULP_UPDATE_SNAPSHOTS=1"
    known = path.read_text(encoding="utf-8")
    lines = difflib.unified_diff(known.splitlines(), text.splitlines(), path.name, "now", lineterm="")
    assert text == known, "\n".join(lines)


def right(a, b):
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)


def a_third(a, b, alpha):
    return (np.float32(alpha) * (a.astype(np.float32) @ b.astype(np.float32))).astype(a.dtype)


def knows_whole_numbers(a, b):
    return right(a, b) if (a * 64 % 1 == 0).all() else np.zeros_like(right(a, b))


def without_last(a, b):
    return right(a[:, :-1], b[:-1])


def unwritten(a, b, out):
    out[:, :8] = right(a, b)[:, :8]


def stale():
    cache = []

    def kernel(a, b):
        cache[:] = cache or [right(a, b)]
        return cache[0].copy()

    return kernel


def raising(a, b):
    raise RuntimeError("no such tile")


REPORTS = {
    "correct": (right, HALF, {}),
    "correct_any_bfloat16": (right, Matmul(6, 6, 2000, a="bfloat16", accumulate="any"), {}),
    "incorrect_last_product": (without_last, HALF, {}),
    "incorrect_precision": (matmul_in_order("blocked", partial="float16"), HALF, {}),
    "incorrect_unwritten": (unwritten, HALF, dict(destination_passing=True)),
    "incorrect_stale": (stale(), HALF, {}),
    "inconclusive_binary": (right, Matmul(8, 8, 9000, a="float16"), dict(probes=["binary"], trials=5, p_zero=0.5)),
    "inconclusive_alpha": (a_third, HALF.replace(alpha=1 / 3), {}),
    "correct_ordinary": (right, HALF, dict(probes=["signed", "real"])),
    "incorrect_ordinary": (knows_whole_numbers, HALF, dict(probes=["signed", "real"])),
    "inconclusive_bound": (right, HALF, dict(probes=["one_hot"], escape_probability=1e-9)),
    "broken_raised": (raising, HALF, {}),
    "broken_no_array": (lambda a, b: None, HALF, {}),
}


@pytest.mark.parametrize("name", REPORTS)
def test_reports(name):
    kernel, problem, options = REPORTS[name]
    text = str(zeroulp.check(kernel, problem, seed=0x5EED, **{"probes": PROBES, **options}))
    text = re.sub(r"time +\S+ s in the kernel's calls, \S+ s for the whole check, \S+ times", "time  (both, and their ratio)", text)
    compare(f"report_{name}", re.sub(r'File ".*[/\\](.*)", line \d+', r'File ".../\1", line N', text))


def without_last_of_17(a, b):
    if len(a) == 6:
        raise RuntimeError("no such tile")
    return right(a[:, :16], b[:16]) if a.shape[1] == 17 else right(a, b)


GRIDS = {
    "correct": (right, "8,9x8x16,17", {}),
    "one_shape": (right, "8x8x16", {}),
    "mixed": (without_last_of_17, "5,6x7,8x16,17,9000", dict(probes=["signed", "binary"], p_zero=0.1)),
    "stopped": (without_last_of_17, "8x8x16,17,18", dict(fail_fast=True)),
    "many": (without_last, "2,3,4", {}),
}


@pytest.mark.parametrize("name", GRIDS)
def test_grids(name):
    kernel, shapes, options = GRIDS[name]
    text = str(zeroulp.check_grid(kernel, HALF, shapes, seed=0x5EED, **{"probes": PROBES, **options}))
    compare(f"grid_{name}", re.sub(r"[\d.]+ s in", "N s in", text))


GRID_ERRORS = {
    "another": dict(shapes="4x4x5", p_zero=0.25),
    "no_grid": dict(shapes="4x4"),
}


@pytest.mark.parametrize("name", GRID_ERRORS)
def test_errors_of_grids(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    zeroulp.check_grid(right, HALF, "4x4x4", journal="grid.jsonl", probes=PROBES)
    with pytest.raises(ZeroulpError) as caught:
        zeroulp.check_grid(right, HALF, journal="grid.jsonl", probes=PROBES, **GRID_ERRORS[name])
    compare(f"error_grid_{name}", f"{caught.value}\n")


ERRORS = {
    "unknown_format": lambda: Matmul(1, 1, 1, a="flaot16"),
    "infeasible_p_zero": lambda: make_plan(HALF, p_zero=1.0),
    "damaged_report": lambda: zeroulp.report.from_json('{"schema_version": 1, "verdict": "MAYBE"}', source="report.json"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    with pytest.raises(ZeroulpError) as caught:
        ERRORS[name]()
    compare(f"error_{name}", f"{caught.value}\n")


PLANS = {
    "float16": dict(problem=Matmul(512, 512, 4096, a="float16")),
    "bfloat16_any": dict(problem=Matmul(64, 64, 1000, a="bfloat16", accumulate="any")),
    "int8": dict(problem=Matmul(64, 64, 1000, a="int8")),
}


@pytest.mark.parametrize("name", PLANS)
def test_plans(name):
    compare(f"plan_{name}", render_plan(make_plan(**PLANS[name], probes=PROBES)))


def test_formats():
    compare("formats", render_formats())


def test_a_changed_text_is_seen():
    with pytest.raises(AssertionError, match="now"):
        compare_unchanged("formats", render_formats() + "more\n")


def compare_unchanged(name, text):
    """`compare` that never writes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ZEROULP_UPDATE_SNAPSHOTS", raising=False)
        compare(name, text)
