"""Real libraries on this CPU are accepted, and accused only of defects that are there without zeroulp too."""

from __future__ import annotations

import warnings

import pytest

from benchmarks.campaign.libraries import SUBJECTS
from zeroulp.report import Verdict

SHAPES = ((17, 33, 70), (1, 5, 257))
RIGHT = [subject for subject in SUBJECTS if subject.defect is None]
DEFECTIVE = [subject for subject in SUBJECTS if subject.defect is not None]


@pytest.fixture(autouse=True)
def quiet_libraries():
    """Libraries warn of devices that are not there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def title(subject):
    return subject.title


@pytest.mark.parametrize("subject", RIGHT, ids=title)
def test_nobody_is_accused(subject):
    if subject.missing():
        pytest.skip(subject.missing())
    for report in subject.checks(shapes=SHAPES):
        assert report.verdict is Verdict.CORRECT, f"{subject.title}\n{report.problem}\n{report}"


@pytest.mark.parametrize("subject", DEFECTIVE, ids=title)
def test_an_accusation_is_borne_out_without_zeroulp(subject):
    """Accused where the defect can be shown by hand, and nowhere else."""
    if subject.missing():
        pytest.skip(subject.missing())
    verdicts = {report.verdict for report in subject.checks(seeds=(1, 2), shapes=SHAPES[:1])}
    assert verdicts == {Verdict.INCORRECT if subject.defect() else Verdict.CORRECT}
