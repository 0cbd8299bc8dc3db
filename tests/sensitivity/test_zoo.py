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

MISSED: dict[str, str] = {}

MISNAMED: dict[str, str] = {}


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
