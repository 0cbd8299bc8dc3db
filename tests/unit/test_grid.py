"""A grid of shapes from Python: its report, and the file that it goes on from."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import zeroulp
from zeroulp import Matmul, Verdict, check_grid
from zeroulp.errors import ReportFileError, UsageError
from zeroulp.report.codec import to_dict
from zeroulp.report.journal import FileJournal, StreamJournal, holds_grid

GIVEN = Matmul(1, 1, 1, a="float16")
QUICK = dict(probes=["signed"], trials=1, seed=5)
SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "report.schema.json").read_text(encoding="utf-8"))


def right(a, b):
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)


class Kernel:
    """Right but at some shapes; it counts the shapes at which it is called, and may raise at one."""

    def __init__(self, wrong=(), refused=(), stop=None):
        self.wrong, self.refused, self.stop = wrong, refused, stop
        self.shapes = {}

    def __call__(self, a, b):
        sizes = (a.shape[0], b.shape[1], a.shape[1])
        self.shapes[sizes] = self.shapes.get(sizes, 0) + 1
        if sizes == self.stop:
            raise KeyboardInterrupt
        if sizes in self.refused:
            raise ValueError("not that")
        return right(a[:, :-1], b[:-1]) if sizes in self.wrong else right(a, b)


Kernel.__module__ = right.__module__


def run(kernel, shapes, **options):
    return check_grid(kernel, GIVEN, shapes, framework="numpy", **{**QUICK, **options})


def verdicts(report):
    return [result.verdict.value for result in report.results]


def test_every_shape_gets_the_whole_plan_and_goes_on_after_a_wrong_one():
    kernel = Kernel(wrong=[(4, 4, 9)], refused=[(4, 5, 8)])
    report = run(kernel, "4x4,5x8,9", probes=None, trials=None)
    assert [str(result.sizes) for result in report.results] == ["4x4x8", "4x4x9", "4x5x8", "4x5x9"]
    assert verdicts(report) == ["CORRECT", "INCORRECT", "BROKEN", "CORRECT"]
    assert (report.verdict, report.telling.sizes, report.planned) == (Verdict.INCORRECT, (4, 4, 9), 4)
    alone = zeroulp.check(right, GIVEN.replace(m=4, n=5, k=9), seed=5)
    assert (report.results[3].calls, report.results[3].escape_probability) == (alone.calls, alone.escape_probability)
    assert sum(kernel.shapes.values()) == report.calls


def test_the_worst_verdict_is_that_of_the_whole():
    assert run(Kernel(), [(4, 4, 4)]).verdict is Verdict.CORRECT
    assert run(Kernel(refused=[(4, 4, 5)]), "4x4x4,5").verdict is Verdict.BROKEN
    starved = run(Kernel(), [(4, 4, 4), (8, 8, 9000)], probes=["binary"], p_zero=0.1)
    assert verdicts(starved)[1] == "INCONCLUSIVE"
    assert starved.verdict is Verdict.INCONCLUSIVE
    assert starved.telling.sentence


def test_fail_fast():
    report = run(Kernel(wrong=[(4, 4, 5)]), "4x4x4,5,6", fail_fast=True)
    assert verdicts(report) == ["CORRECT", "INCORRECT"]
    assert report.planned == 3
    assert "2 shapes checked of 3" in str(report)


@pytest.mark.parametrize("shapes", [[], [(1, 2)], [(1, 2, -3)], [5], "64x64", [(1.5, 2, 3)]])
def test_what_is_no_list_of_shapes(shapes):
    with pytest.raises(UsageError):
        run(Kernel(), shapes)


def test_a_shape_that_does_not_fit_is_inconclusive_and_tried_again(tmp_path):
    request = dict(kernel=Kernel(), shapes=[(4, 4, 4), (2**31 - 1, 2**31 - 1, 4), (5, 5, 5)], journal=tmp_path / "grid.jsonl")
    report = run(**request)
    assert verdicts(report) == ["CORRECT", "INCONCLUSIVE", "CORRECT"]
    assert len((tmp_path / "grid.jsonl").read_text().splitlines()) == 1 + 2
    again = run(**request)
    assert (again.resumed, verdicts(again)) == (2, verdicts(report))
    assert "memory" in report.results[1].sentence or "GiB" in report.results[1].sentence


def test_a_kernel_that_cannot_be_loaded_is_broken_once(tmp_path):
    (tmp_path / "kernel.py").write_text("raise RuntimeError('no device')")
    report = run(f"{tmp_path / 'kernel.py'}:matmul", "4,5,6")
    assert verdicts(report) == ["BROKEN"]
    with pytest.raises(UsageError, match="no file"):
        run(f"{tmp_path / 'other.py'}:matmul", "4,5,6", journal=tmp_path / "grid.jsonl")
    assert not (tmp_path / "grid.jsonl").exists()


def test_an_interrupt_loses_nothing_and_the_same_request_goes_on(tmp_path):
    file = tmp_path / "grid.jsonl"
    whole = run(Kernel(wrong=[(4, 5, 4)]), "4,5", journal=tmp_path / "whole.jsonl", seed=None)
    seed = whole.seed
    with pytest.raises(KeyboardInterrupt):
        run(Kernel(wrong=[(4, 5, 4)], stop=(4, 5, 5)), "4,5", journal=file, seed=seed)
    assert len(file.read_text().splitlines()) == 1 + 3

    kernel, steps = Kernel(wrong=[(4, 5, 4)]), []
    report = run(kernel, "4,5", journal=file, seed=None, progress=steps.append)
    assert report.seed == seed
    assert report.resumed == 3
    assert list(kernel.shapes) == [(4, 5, 5), (5, 4, 4), (5, 4, 5), (5, 5, 4), (5, 5, 5)]
    assert verdicts(report) == verdicts(whole)
    assert [result.sizes for result in report.results] == [result.sizes for result in whole.results]
    assert (steps[0].done, steps[0].planned, steps[0].seconds_left is None) == (3, 8, False)
    assert (steps[-1].done, steps[-1].sizes, steps[-1].seconds_left) == (8, None, pytest.approx(0, abs=1e-9))
    assert steps[-1].counts == {Verdict.CORRECT: 7, Verdict.INCORRECT: 1}

    def lines(path):
        return [{name: value for name, value in json.loads(line).items() if name != "seconds"} for line in path.read_text().splitlines()]

    assert lines(file) == lines(tmp_path / "whole.jsonl")
    assert run(Kernel(stop=(4, 4, 4)), "4,5", journal=file, seed=None).resumed == 8


@pytest.mark.parametrize("cut", [1, 2, 100, 1500])
def test_a_last_line_that_was_cut_short_is_dropped_and_its_shape_checked_again(tmp_path, cut):
    file = tmp_path / "grid.jsonl"
    whole = run(Kernel(), "4,5", journal=file)
    content = file.read_bytes()
    file.write_bytes(content[:-cut])
    report = run(Kernel(), "4,5", journal=file)
    assert (report.resumed, verdicts(report)) == (7, verdicts(whole))
    lines = file.read_text().splitlines()
    assert len(lines) == 9
    assert all(json.loads(line) for line in lines)


@pytest.mark.parametrize("tail", [b"\0" * 700 + b"\n", b'{"schema_version":1,"verd\n', b"\n"])
def test_a_last_line_of_rubbish_is_dropped(tmp_path, tail):
    file = tmp_path / "grid.jsonl"
    run(Kernel(), "4,5", journal=file)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]) + tail)
    assert run(Kernel(), "4,5", journal=file).resumed == 7
    assert len(file.read_bytes().splitlines()) == 9


@pytest.mark.parametrize("keep", [1, 20, 500])
def test_a_header_that_was_cut_short_is_written_anew(tmp_path, keep):
    file = tmp_path / "grid.jsonl"
    run(Kernel(), "4,5", journal=file)
    content = file.read_bytes()
    file.write_bytes(content[:max(keep, len(b'{"schema_version":'))])
    assert run(Kernel(), "4,5", journal=file).resumed == 0
    assert len(file.read_bytes().splitlines()) == 9


def test_damage_in_the_middle_is_an_error_that_names_the_line(tmp_path):
    file = tmp_path / "grid.jsonl"
    run(Kernel(), "4,5", journal=file)
    lines = file.read_text().splitlines(keepends=True)
    for bad in ("{\n", "[]\n", "{}\n", lines[4].replace('"CORRECT"', '"PERHAPS"', 1), lines[4].replace('"m":4', '"m":77')):
        damaged = "".join([*lines[:4], bad, *lines[5:]])
        file.write_text(damaged)
        with pytest.raises(ReportFileError) as caught:
            run(Kernel(), "4,5", journal=file)
        assert caught.value.where == f"{file}:5"
        assert file.read_text() == damaged


@pytest.mark.parametrize("content", ["hello\n", "{}\n", '{"schema_version": 1, "shapes": []}\n', "no end of line", "[1]\n"])
def test_another_file_is_left_as_it_is(tmp_path, content):
    file = tmp_path / "report.json"
    file.write_text(content)
    with pytest.raises(ReportFileError, match="is not the file of a grid"):
        run(Kernel(), "4,5", journal=file)
    assert file.read_text() == content


def test_a_whole_report_of_one_shape_is_left_as_it_is(tmp_path):
    file = tmp_path / "report.json"
    text = zeroulp.to_json(zeroulp.check(right, GIVEN))
    file.write_text(text)
    with pytest.raises(ReportFileError, match="is not the file of a grid"):
        run(Kernel(), "4,5", journal=file)
    assert file.read_text() == text


@pytest.mark.parametrize(("change", "words"), [
    (dict(shapes="4,6"), "shapes: 8 from 4x4x4 to 5x5x5, now 8 from 4x4x4 to 6x6x6"),
    (dict(seed=6), "seed: 0x0000000000000005, now 0x0000000000000006"),
    (dict(trials=2), "options.trials: 1, now 2"),
    (dict(p_zero=0.5), "options.p_zero: not given, now 0.5"),
    (dict(problem=GIVEN.replace(accumulate="any")), "problem.accumulate: float32, now any"),
    (dict(kernel=right), "kernel: "),
    (dict(destination_passing=True), "kernel.destination_passing: False, now True"),
])
def test_another_request_is_refused_with_what_differs(tmp_path, change, words):
    file = tmp_path / "grid.jsonl"
    run(Kernel(), "4,5", journal=file)
    before = file.read_bytes()
    request = {"kernel": Kernel(), "problem": GIVEN, "shapes": "4,5", "framework": "numpy", **QUICK, **change}
    with pytest.raises(ReportFileError, match="holds another grid") as caught:
        check_grid(**request, journal=file)
    assert words in caught.value.where
    assert file.read_bytes() == before


def test_a_kernel_whose_file_has_changed_is_another_one(tmp_path):
    kernel = tmp_path / "kernel.py"
    kernel.write_text("def matmul(a, b):\n    return (a.astype('f4') @ b.astype('f4')).astype(a.dtype)\n")
    run(f"{kernel}:matmul", "4,5", journal=tmp_path / "grid.jsonl")
    kernel.write_text(kernel.read_text() + "# mended\n")
    with pytest.raises(ReportFileError) as caught:
        run(f"{kernel}:matmul", "4,5", journal=tmp_path / "grid.jsonl")
    assert caught.value.where == "the kernel's file has changed"


def test_two_checks_do_not_write_one_file(tmp_path):
    with FileJournal(tmp_path / "grid.jsonl"), pytest.raises(UsageError, match="is being written by another check"):
        run(Kernel(), "4", journal=tmp_path / "grid.jsonl")
    assert not (tmp_path / "grid.jsonl").exists()


def test_a_report_is_appended_whole_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "grid.jsonl"
    run(Kernel(), [(4, 4, 4)], journal=file)
    report = zeroulp.check(right, GIVEN)
    before = file.read_bytes()
    with FileJournal(file) as journal:
        real = journal._file

        class Interrupted:
            def write(self, data):
                if len(data) > 100:
                    return real.write(data[:100])
                raise KeyboardInterrupt

            def __getattr__(self, name):
                return getattr(real, name)

        class Halting(Interrupted):
            written = 0

            def write(self, data):
                self.written += 1
                if self.written == 2:
                    raise KeyboardInterrupt
                return super().write(data)

        journal._file = Halting()
        with pytest.raises(KeyboardInterrupt):
            journal.add(to_dict(report))
    assert file.read_bytes() == before


def test_the_reports_in_the_file_are_whole_and_follow_the_schema(tmp_path):
    file = tmp_path / "grid.jsonl"
    report = run(Kernel(wrong=[(4, 5, 4)], refused=[(5, 5, 4)]), "4,5", journal=file)
    text = file.read_text()
    first, *lines = text.splitlines()
    assert holds_grid(text)
    jsonschema.Draft202012Validator(SCHEMA).evolve(schema=SCHEMA["$defs"]["grid"]).validate(json.loads(first))
    for line, result in zip(lines, report.results, strict=True):
        jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(line))
        one = zeroulp.from_json(line)
        assert (one.verdict, (one.problem.m, one.problem.n, one.problem.k)) == (result.verdict, result.sizes)
    again = zeroulp.grid_from_jsonl(text)
    assert (again.header, again.results, again.resumed) == (report.header, report.results, 8)
    telling = zeroulp.shape_from_jsonl(text)
    assert telling.problem.k == 4
    assert zeroulp.replay(telling, Kernel(wrong=[(4, 5, 4)])).verdict is Verdict.INCORRECT
    with pytest.raises(ReportFileError, match="is not in this grid"):
        zeroulp.shape_from_jsonl(text, (9, 9, 9))
    half = "\n".join([first, *lines[:3], ""])
    assert len(zeroulp.grid_from_jsonl(half).results) == 3
    with pytest.raises(ReportFileError, match="was not checked yet"):
        zeroulp.shape_from_jsonl(half, (5, 5, 5))
    for bad in ("", first + "\n", "{}\n", "x"):
        with pytest.raises(ReportFileError):
            zeroulp.grid_from_jsonl(bad)


def test_a_stream_gets_the_same_lines(tmp_path):
    lines = []
    run(Kernel(), "4,5", journal=StreamJournal(lines.append))
    assert holds_grid("".join(lines))
    assert len(zeroulp.grid_from_jsonl("".join(lines)).results) == 8
