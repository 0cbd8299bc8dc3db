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

SEEDS = (1,)

NO_SPECIALS = "a default check puts no NaN, infinities, overflow or subnormals among the inputs (`specials` is on request)"
NO_SPREAD = "within a trial the magnitudes of an operand hardly differ, and all trials are near one (`scaled`, `one_hot`)"
NO_RANGE = "no operand and no output comes near the ends of the range of its format (`scaled`, `one_hot`)"

MISSED = {
    **{entry.name: NO_SPECIALS for entry in FAULTY if "specials" in entry.needs and entry.name != "fp8-subnormals-lost"},
    "dominant-column-only": NO_SPREAD,
    "integer-sums-in-float-short": "the sums of `wide` reach a quarter of the largest possible one, 127 * 127 * k",
    "clamped-at-240": NO_RANGE,
    "minus-128-clamped": NO_RANGE,
    "sums-of-22-bits-narrow-output": "the output's rounding hides bits of the sums unless large terms cancel (`cancel`)",
}

SATURATED = "values that stop at a limit look like sums that lose bits"

MISNAMED = {
    "scale-of-the-first-call": "wrong at some magnitudes only, which looks like a range of the operands that is too small",
    "fp8-sums-in-float16": "sums of 11 bits and one rounding to 11 bits look alike where products have 14",
    "too-few-slices": "trials that name a fault draw 31 bits at most",
    "partials-in-the-range-of-float16": "first seen in single products, where a range looks like that of an operand",
    "equal-rows-merged": "first seen in one_hot, whose rows are mostly zeros",
    "large-ones-clamped": "first seen in one_hot with some seeds",
    "through-integers": "trials that name a fault have whole numbers, on which this kernel is right",
    "narrow-in-the-last-tile": "the four single products that would tell seldom meet the last tile of k",
    "pair-sums-saturate": SATURATED,
    "sums-saturate-at-16-bits": SATURATED,
    "products-rounded": "single products that are rounded look like a rounding of the output",
    "half-away-float16": "a single wrong output at a tie does not say whether ties go away from zero or sums are narrow",
    "rounded-twice": "two roundings in a row have no name yet",
    "rounded-to-odd": "rounding to odd has no name yet",
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
