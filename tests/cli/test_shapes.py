"""``--shapes`` on the command line."""

from __future__ import annotations

import json

import pytest

import zeroulp

RIGHT = """
    def matmul(a, b):
        return (a.astype('f4') @ b.astype('f4')).astype(a.dtype)
"""
TAIL = """
    def matmul(a, b):
        last = a.shape[1] - (a.shape[1] % 16 == 13)
        return (a[:, :last].astype('f4') @ b[:last].astype('f4')).astype(a.dtype)
"""
FUSSY = """
    def matmul(a, b):
        if a.shape[0] == 1:
            raise ValueError('one row is not supported')
        return (a.astype('f4') @ b.astype('f4')).astype(a.dtype)
"""
SIZES = ("-m", 16, "-n", 16, "-k", 16, "--a", "float16")
RAGGED = (*SIZES, "--shapes", "ragged")
QUICK = ("--isolate", "none", "--probe", "signed")


def test_the_given_shape_alone_is_checked_by_default(command, kernel_file):
    ran = command("check", kernel_file(TAIL), *SIZES, *QUICK)
    assert ran.status == 0
    assert "why this shape" not in ran.out


def test_a_kernel_that_is_right_at_every_shape(command, kernel_file):
    ran = command("check", kernel_file(RIGHT), *RAGGED, *QUICK, "--seed", 5)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("CORRECT  ")
    assert ran.out.count(" CORRECT ") == len(zeroulp.ragged_shapes(zeroulp.Matmul(16, 16, 16, a="float16")))
    assert "0x0000000000000005" in ran.out


def test_one_that_is_wrong_at_a_neighbour_and_its_replay(command, kernel_file, tmp_path):
    file = tmp_path / "shapes.json"
    ran = command("check", kernel_file(TAIL), *RAGGED, *QUICK, "--json", file)
    assert (ran.status, ran.err) == (1, "")
    first = ran.out.splitlines()[0]
    assert first.startswith("INCORRECT  at ")
    assert "matmul leaves out the product" in first
    assert f"see it again      zeroulp replay {file}" in ran.out
    report = zeroulp.shapes_from_json(file.read_text())
    assert report.telling.problem.k == 13

    again = command("replay", file, "--isolate", "none")
    assert again.status == 1
    assert again.out.startswith("INCORRECT  matmul leaves out the product")
    assert first.partition("): ")[2] == again.out.splitlines()[0].partition("  ")[2]
    assert command("replay", file, kernel_file(RIGHT, name="mended.py"), "--isolate", "none").status == 0


def test_in_a_worker_process(command, kernel_file):
    """It crashes at the first neighbour, and that is a verdict."""
    crashing = "def matmul(a, b):\n    import os\n    os._exit(3) if a.shape != (16, 16) else None\n    return a @ b\n"
    ran = command("check", kernel_file(crashing), *RAGGED, "--probe", "signed")
    assert ran.status == 4
    assert "  2 of " in ran.out
    assert " shapes checked, 1 CORRECT, 1 BROKEN:" in ran.out


def test_keep_going(command, kernel_file):
    ran = command("check", kernel_file(TAIL), *RAGGED, *QUICK, "--keep-going", "--json", "-")
    data = json.loads(ran.out)
    assert ran.status == 1
    assert len(data["shapes"]) == data["shapes_planned"]
    assert data["verdict"] == "INCORRECT"
    assert ran.err.startswith("INCORRECT  at ")


def test_one_that_refuses_a_shape(command, kernel_file):
    ran = command("check", kernel_file(FUSSY), *RAGGED, *QUICK)
    assert ran.status == 4
    assert ran.out.startswith("BROKEN  at 1 x 16 x 16 (m = 1): the kernel raised ValueError: one row is not supported.")


def test_an_empty_sum_on_request(command, kernel_file):
    ran = command("check", kernel_file(RIGHT), *SIZES, "--shapes", "ragged+empty", *QUICK)
    assert ran.status == 0
    assert "16 x 16 x 0 " in ran.out


@pytest.mark.parametrize(("words", "message"), [
    (("--shapes", "raged"), "unknown set of shapes 'raged'"), (("--keep-going",), "--keep-going goes with --shapes"),
])
def test_requests_that_make_no_sense(command, kernel_file, words, message):
    ran = command("check", kernel_file(RIGHT), *SIZES, *words, *QUICK)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err


def test_the_plan_lists_the_shapes_and_why(command):
    ran = command("plan", *RAGGED)
    assert (ran.status, ran.err) == (0, "")
    shapes = zeroulp.ragged_shapes(zeroulp.Matmul(16, 16, 16, a="float16"))
    lines = ran.out.splitlines()[-len(shapes):]
    assert lines[0].startswith("16 x 16 x 16  ")
    assert lines[0].endswith("the given shape")
    assert [line.split()[:5] for line in lines] == [[str(s.m), "x", str(s.n), "x", str(s.k)] for s in shapes]
    assert any(line.endswith("  m = 1") for line in lines)
    assert f"{len(shapes)} shapes, " in ran.out
    assert command("plan", *SIZES).out in ran.out
    assert command("plan", *SIZES, "--shapes", "raged").status == 2


def test_a_damaged_file_is_not_replayed(command, tmp_path):
    file = tmp_path / "shapes.json"
    file.write_text('{"schema_version": 1, "shapes_planned": 1, "shapes": []}')
    ran = command("replay", file)
    assert ran.status == 2
    assert "is a damaged report" in ran.err
