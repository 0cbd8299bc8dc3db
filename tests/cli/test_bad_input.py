"""Bad input gets one clear message, the right exit status, and no traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zeroulp.cli import check as check_command

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RIGHT = f"{EXAMPLES / 'correct/numpy_tiled.py'}:matmul"
WRONG = f"{EXAMPLES / 'wrong/last_k_dropped.py'}:matmul"
SIZES = ("-m", 8, "-n", 9, "-k", 17, "--a", "float16")
HERE = ("--isolate", "none")


def assert_refused(ran, *fragments):
    """One message on stderr and nothing else, exit status 2."""
    assert ran.status == 2, ran.out
    assert ran.out == ""
    assert ran.err.startswith("zeroulp: ")
    assert "Traceback" not in ran.err
    for fragment in fragments:
        assert fragment in ran.err, ran.err


@pytest.mark.parametrize(("words", "fragments"), [
    (("--a", "flaot16"), ("unknown format 'flaot16'", "did you mean float16")),
    (("--out", "???"), ("unknown format '???'", "known: ", "bfloat16")),
    (("--a", "int8", "--out", "e8m0"), ("float8_e8m0fnu holds scales",)),
    (("-m", "-8"), ("m=-8 is no size", "0 or more")),
    (("--batch", "2", "-1"), ("batch=-1 is no size",)),
    (("--layouts", "diagonal"), ("unknown layout 'diagonal'", "contiguous", "padded")),
    (("--probe", "binray"), ("unknown probe 'binray'", "did you mean binary")),
    (("--accumulate", "int32"), ("accumulate='int32' needs integer operands", "a is float16", "leave accumulate out")),
    (("--accumulate", "float33"), ("clause accumulate 'float33'", "did you mean float32")),
    (("--accumulator-precision", "0"), ("accumulator_precision=0", "from 1 to 53")),
    (("--rounding", "up"), ("clause rounding 'up'", "ties-to-even")),
    (("--p-zero", "-0.1"), ("p_zero=-0.1 is infeasible", "inputs of zeros alone", "leave it out")),
    (("--p-zero", "1"), ("p_zero=1.0 is infeasible",)),
    (("--p-zero", "1.5"), ("p_zero=1.5 is infeasible",)),
    (("--p-zero", "nan"), ("p_zero=nan is infeasible",)),
    (("--trials", "0"), ("trials=0 is no number of trials", "1 or more")),
    (("--repeat", "-1"), ("repeat=-1", "0 or more")),
    (("--escape-probability", "0"), ("escape_probability=0.0", "no finite test is certain")),
    (("--alpha", "inf"), ("alpha=inf is no finite number",)),
    (("--beta", "nan"), ("beta=nan is no finite number",)),
    (("--seed", "tomorrow"), ("seed 'tomorrow'", "leave it out")),
    (("--framework", "fortran"), ("framework 'fortran' is not supported", "numpy, torch")),
    (("--signature", "a, b, out"), ("a signature for a Python function", "leave it out")),
    (("--deadline", "0", "--isolate", "process"), ("a deadline of 0 s", "positive")),
    (("--deadline", "nan", "--isolate", "process"), ("a deadline of nan s", "positive")),
    (("--json", "no/such/directory/report.json"), ("there is no directory no/such/directory",)),
    (("--json", "."), (". cannot be written", "it is a directory")),
    (("--problem", "problem.py"), ("--problem and also a, k, m, n", "leave --problem out")),
], ids=lambda value: " ".join(map(str, value)) if str(value[0]).startswith("-") else "")
def test_options_that_make_no_sense(command, words, fragments):
    assert_refused(command("check", RIGHT, *SIZES, *HERE, *words), *fragments)


@pytest.mark.parametrize(("words", "fragment"), [
    (("-m", "eight"), "argument -m: invalid int value: 'eight'"),
    (("--isolate", "jail"), "argument --isolate: invalid choice: 'jail'"),
    (("--alhpa", "2"), "unrecognized arguments: --alhpa 2"),
])
def test_words_that_cannot_be_parsed(command, words, fragment):
    ran = command("check", RIGHT, *SIZES, *words)
    assert (ran.status, ran.out) == (2, "")
    assert fragment in ran.err


@pytest.mark.parametrize(("words", "named"), [
    (("-n", 9, "-k", 17, "--a", "float16"), "no -m"),
    (("-m", 9, "-n", 9, "-k", 17), "no --a"),
    ((), "no -m, -n, -k, --a"),
])
def test_a_problem_that_is_not_whole(command, words, named):
    assert_refused(command("check", RIGHT, *words, *HERE), named, "for example: -m 512")
    assert_refused(command("plan", *words), named)


@pytest.mark.parametrize(("text", "fragments"), [
    ("problem = 1 / 0", ("ZeroDivisionError: division by zero", "problem.py:1")),
    ("\n\nproblem = (", ("SyntaxError", "problem.py:3")),
    ("import no_such_module", ("No module named 'no_such_module'", "problem.py:1")),
    ("import sys\nsys.exit(0)", ("SystemExit: 0", "problem.py:2")),
    ("import zeroulp\nproblem = zeroulp.Matmul(1, 2, -3, a='half')", ("k=-3 is no size", "problem.py:2")),
    ("Problem = None", ("defines no `problem`", "zeroulp.Matmul(m=")),
    ("problem = (8, 8, 8)", ("`problem` in", "is a tuple, not a zeroulp.Matmul")),
])
def test_problem_files_that_define_no_problem(command, tmp_path, text, fragments):
    (tmp_path / "problem.py").write_text(text)
    assert_refused(command("check", RIGHT, "--problem", tmp_path / "problem.py", *HERE), *fragments)


def test_a_problem_file_that_is_not_there(command, tmp_path):
    assert_refused(command("check", RIGHT, "--problem", tmp_path / "problem.py"), "no file", "looked in")
    assert_refused(command("check", RIGHT, "--problem", tmp_path), "no file")


@pytest.mark.parametrize("isolation", ["none", "process"])
@pytest.mark.parametrize(("target", "fragments"), [
    ("no_such_file.py:matmul", ("no file no_such_file.py", "looked in")),
    (RIGHT + "s", ("has no function 'matmuls'", "did you mean matmul?")),
    (RIGHT.replace(":matmul", ":gemm"), ("has no function 'gemm'", "it has: tiles, dtypes, matmul")),
    (RIGHT.replace(":matmul", ":TILE_M"), ("is a int, not a function",)),
    ("no_such_module:matmul", ("no module 'no_such_module'", "is it installed")),
    ("numpy.no_such_part:matmul", ("no module 'numpy.no_such_part'", "numpy can be imported")),
    ("matmul", ("'matmul' names no kernel", "file.py:function")),
    ("kernel.py:", ("'kernel.py:' names no kernel",)),
    (":matmul", ("':matmul' names no kernel",)),
    ("", ("'' names no kernel",)),
])
def test_targets_that_name_no_kernel(command, target, fragments, isolation):
    assert_refused(command("check", target, *SIZES, "--isolate", isolation), *fragments)


@pytest.mark.parametrize(("signature", "fragments"), [
    ("a, b, out, q", ("'q' in the signature", "known: a, b")),
    ("a, b, out, m:i16", ("m:i16 in the signature", "i32 or i64")),
    ("a, b, out, alpha:i32", ("alpha:i32 in the signature", "f32 or f64")),
    ("a, b, m, n, k", ("no output in the signature", "needs out, or c")),
    ("a, out", ("no b in the signature",)),
    ("a, b, out, m, m", ("m twice in the signature",)),
    ("a, b, out -> f32", ("return type 'f32'", "i32, i64 or void")),
    ("a, b,, out", ("'' in the signature",)),
    ("a, b, out, bias", ("has a bias and the problem does not",)),
    ("a, b, c, out", ("has c and out, but beta is 0",)),
])
def test_signatures_that_make_no_sense(command, signature, fragments):
    assert_refused(command("check", "./kernel.so:matmul", *SIZES, *HERE, "--signature", signature), *fragments)


def test_a_shared_library_without_a_signature(command):
    ran = command("check", "./kernel.so:matmul", *SIZES, *HERE)
    assert_refused(ran, "no signature for the C symbol 'matmul'", "--signature 'a, b, out, m, n, k, lda, ldb, ldout'")


def test_a_shared_library_that_is_not_there_or_is_none(command, tmp_path):
    file = tmp_path / "kernel.so"
    signed = (*SIZES, *HERE, "--signature", "a, b, out, m, n, k")
    assert_refused(command("check", f"{file}:matmul", *signed), "no shared library at", "build it first")
    file.write_bytes(b"\x7fELF, and then no more")
    assert_refused(command("check", f"{file}:matmul", *signed), "kernel.so cannot be loaded")


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_kernel_file_that_raises_on_import_is_broken(command, kernel_file, isolation):
    target = kernel_file("\n\ntable = {}['missing']\ndef matmul(a, b): return a @ b\n", name="raises.py")
    ran = command("check", target, *SIZES, "--isolate", isolation)
    assert (ran.status, ran.err) == (4, "")
    assert ran.out.startswith("BROKEN  the kernel raised KeyError: 'missing'.")
    assert "raises.py\", line 4" in ran.out
    assert "is called with" not in ran.out


@pytest.mark.parametrize("isolation", ["none", "process"])
@pytest.mark.parametrize(("text", "fragments"), [
    ("def matmul(a): return a", ("takes 1 positional argument", "is called with 2 arrays, in the order a, b, c")),
    ("def matmul(a, b, c): return a", ("missing 1 required positional argument: 'c'", "is called with 2 arrays")),
    ("def matmul(a, b): return None", ("returned None, not an array of numpy", "destination passing")),
    ("def matmul(a, b): return (a @ b).tolist()", ("returned a builtins.list, not an array of numpy",)),
    ("def matmul(a, b): exit(0)", ("raised SystemExit: 0",)),
], ids=["too few parameters", "too many parameters", "None", "a list", "exit"])
def test_calls_that_give_no_array_are_broken(command, kernel_file, text, fragments, isolation):
    ran = command("check", kernel_file(text), *SIZES, "--isolate", isolation)
    assert (ran.status, ran.err) == (4, "")
    assert ran.out.startswith("BROKEN  ")
    for fragment in fragments:
        assert fragment in ran.out


def test_a_type_error_deep_in_the_kernel_says_nothing_of_its_parameters(command, kernel_file):
    target = kernel_file("def helper(x): return x\ndef matmul(a, b): return helper(a, b)\n")
    ran = command("check", target, *SIZES, *HERE)
    assert ran.status == 4
    assert "helper() takes 1 positional argument" in ran.out
    assert "is called with" not in ran.out


def test_a_kernel_cannot_pass_its_own_trouble_off_as_the_users(command, kernel_file):
    target = kernel_file("from zeroulp.errors import UsageError\ndef matmul(a, b): raise UsageError('your fault')\n")
    assert command("check", target, *SIZES, *HERE).status == 4


@pytest.fixture
def report(command, tmp_path):
    """A report file with a finding."""
    file = tmp_path / "report.json"
    assert command("check", WRONG, *SIZES, *HERE, "--json", file).status == 1
    return file


def test_a_report_file_cut_short(command, report):
    text = report.read_text()
    for length in (1, len(text) // 2, len(text) - 3):
        report.write_text(text[:length])
        assert_refused(command("replay", report), "is no JSON", "it may be cut short", "line ", "--json")


@pytest.mark.parametrize(("text", "fragments"), [
    ("", ("is no JSON", "the file is empty")),
    ("{}", ("is no report", "schema_version is None", "another tool's file")),
    ("[1, 2]", ("is no report",)),
    ("null", ("is no report",)),
    ("a,b\n1,2\n", ("is no JSON",)),
])
def test_files_that_are_no_report(command, tmp_path, text, fragments):
    file = tmp_path / "report.json"
    file.write_text(text)
    assert_refused(command("replay", file), *fragments)


def test_a_report_of_another_schema(command, report):
    report.write_text(json.dumps({**json.loads(report.read_text()), "schema_version": 99}))
    assert_refused(command("replay", report), "no report of schema version 1", "99", "the version of zeroulp that")


@pytest.mark.parametrize("change", [
    {"trials": None}, {"seed": "soon"}, {"verdict": "FINE"}, {"kernel": {"name": "x"}}, {"findings": [{}]},
    {"problem": {"m": 1}}, {"problem": None}, {"kernel": {"target": 5}}, {"kernel": {"target": "k.py:f", "framework": []}},
], ids=str)
def test_a_damaged_report(command, report, change):
    report.write_text(json.dumps({**json.loads(report.read_text()), **change}))
    assert_refused(command("replay", report, *HERE), "is a damaged report")


@pytest.mark.parametrize("change", [
    {"layouts": {"a": "diagonal", "b": "contiguous", "out": "contiguous"}}, {"settings": None}, {"calls": "many"},
    {"layouts": {}}, {"settings": {}},
], ids=str)
def test_a_damaged_trial(command, report, change):
    data = json.loads(report.read_text())
    data["trials"] = [{**trial, **change} for trial in data["trials"]]
    report.write_text(json.dumps(data))
    assert_refused(command("replay", report, *HERE))


def test_a_report_whose_seed_was_changed_is_no_replay(command, report):
    report.write_text(json.dumps({**json.loads(report.read_text()), "seed": "0x0000000000000007"}))
    assert_refused(command("replay", report, *HERE), "was drawn with other bits than the report says")


def test_report_files_that_cannot_be_read(command, tmp_path):
    assert_refused(command("replay", tmp_path / "none.json"), "none.json cannot be read", "No such file")
    assert_refused(command("replay", tmp_path), "cannot be read", "Is a directory")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    assert_refused(command("replay", tmp_path / "binary.json"), "cannot be read", "codec")


def test_a_report_that_cannot_be_written_is_refused_before_the_kernel_runs(command, kernel_file, tmp_path):
    target = kernel_file(f"open({str(tmp_path / 'ran')!r}, 'w').close()\ndef matmul(a, b): return a @ b\n")
    ran = command("check", target, *SIZES, *HERE, "--json", tmp_path / "missing" / "report.json")
    assert_refused(ran, "report.json cannot be written", "there is no directory")
    assert not (tmp_path / "ran").exists()


def test_an_alpha_of_a_third_is_inconclusive_and_says_why(command):
    ran = command("check", RIGHT, *SIZES, *HERE, "--alpha", 1 / 3, "--probe", "signed")
    assert (ran.status, ran.err) == (3, "")
    assert ran.out.startswith("INCONCLUSIVE  nothing wrong was seen in 0 calls")
    assert "alpha=0.333" in ran.out
    assert "significant bits of its own: pass a power of two" in ran.out


def test_debug_shows_the_traceback_and_keeps_the_status(command):
    """Python's own status for an exception is 1, which would say INCORRECT."""
    ran = command("check", RIGHT, *SIZES, "--trials", 0, "--debug")
    assert ran.status == 2
    assert ran.err.startswith("Traceback (most recent call last)")
    assert "zeroulp: trials=0 is no number of trials" in ran.err


def test_a_fault_of_our_own_is_not_a_verdict(command, monkeypatch):
    monkeypatch.setattr(check_command, "check", lambda *args, **options: 1 / 0)
    ran = command("check", RIGHT, *SIZES)
    assert (ran.status, ran.out) == (70, "")
    assert "ZeroDivisionError" in ran.err
    assert "nothing was decided" in ran.err


def test_a_problem_that_does_not_fit_into_memory(command):
    ran = command("check", RIGHT, "-m", 10**7, "-n", 10**7, "-k", 10**7, "--a", "float16", *HERE)
    assert_refused(ran, "more memory than there is", "choose smaller sizes")
