"""The probe of special values: what it draws, what is expected of it, and what it leaves out and why."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest

import zeroulp
from zeroulp import Matmul, encoding, make_plan
from zeroulp.checks.inputs import draw_inputs
from zeroulp.cli.main import main
from zeroulp.errors import ProblemError
from zeroulp.exactness import certify
from zeroulp.formats import format_named
from zeroulp.plan import MOST_CALLS
from zeroulp.probes import Options, probe_named
from zeroulp.probes.specials import CLAUSE
from zeroulp.report import from_json, to_json

SPECIALS = probe_named("specials")
PAIRS = (("float16", ""), ("bfloat16", ""), ("float32", ""), ("float64", ""), ("e4m3", ""), ("e4m3", "float16"), ("e5m2", ""),
         ("fp4", "float32"), ("float32", "bfloat16"), ("bfloat16", "float16"), ("tf32", ""), ("e4m3fnuz", ""))


def trials(problem):
    return {str(trial.settings["kind"]): trial for trial in make_plan(problem, probes=["specials"]).trials} if kinds(problem) else {}


def kinds(problem):
    return [settings["kind"] for settings in SPECIALS.variants(problem, Options())]


@pytest.mark.parametrize(("a", "out"), PAIRS)
@pytest.mark.parametrize("k", [1, 17, 3000])
def test_what_is_tried_is_certified_and_the_rest_has_a_reason(a, out, k):
    for accumulate, changes in itertools.product(("", "any", "float16"), ({}, {"beta": 1.0, "bias": "float32"}, {"alpha": 4.0})):
        problem = Matmul(5, 6, k, a=a, out=out, accumulate=accumulate, **changes)
        absent = SPECIALS.left_out(problem)
        assert set(kinds(problem)) | set(absent) == set(CLAUSE)
        assert not set(kinds(problem)) & set(absent)
        for settings in SPECIALS.variants(problem, Options()):
            certificate = certify(problem, probe_family(problem, settings), declared=True)
            assert certificate.holds, (settings, certificate.reason)


def probe_family(problem, settings):
    from zeroulp.probes import family_of

    return family_of(problem, "specials", settings)


@pytest.mark.parametrize(("a", "out"), PAIRS)
@pytest.mark.parametrize("transposed", [False, True])
def test_subnormal_trials_hold_subnormals_and_single_products(a, out, transposed):
    problem = Matmul(8, 9, 12, a=a, out=out, subnormals="preserve", transpose_a=transposed, transpose_b=transposed)
    for kind, trial in trials(problem).items():
        if CLAUSE[kind] != "subnormals":
            continue
        inputs = draw_inputs(problem, trial, 5)
        x, y = (encoding.decode(inputs.codes[name], f) for name, f in (("a", problem.a_format), ("b", problem.b_format)))
        x, y = (x.T, y.T) if transposed else (x, y)
        small = {"a": (x != 0) & (abs(x) < problem.a_format.min_normal), "b": (y != 0) & (abs(y) < problem.b_format.min_normal)}
        assert (np.count_nonzero(x, axis=1) == 1).all()
        products = [[sum(Fraction(float(x[i, k])) * Fraction(float(y[k, j])) for k in range(12)) for j in range(9)] for i in range(8)]
        if kind == "subnormal operands":
            assert small["a"].any() and small["b"].any()
            ks = np.argmax(x != 0, axis=1)
            assert all(small["a"][i, k] or small["b"][k].all() for i, k in enumerate(ks))
        else:
            assert not small["a"].any() and not small["b"].any()
            assert all(0 < abs(p) < Fraction(problem.out_format.min_normal) for row in products for p in row)
        wanted = encoding.decode(inputs.expected_under(problem).codes, problem.out_format)
        for i, j in itertools.product(range(8), range(9)):
            quantum = Fraction(problem.out_format.min_subnormal)
            assert abs(Fraction(float(wanted[i, j])) - products[i][j]) <= max(quantum / 2, abs(products[i][j]) / 2**problem.out_format.precision)


@pytest.mark.parametrize("saturate", [None, False, True])
@pytest.mark.parametrize("name", ["float16", "e4m3", "e5m2", "e4m3fnuz"])
def test_sums_that_overflow_lie_far_beyond_the_range_and_the_others_within(name, saturate):
    problem = Matmul(9, 8, 40, a=name, saturate=saturate)
    out = problem.out_format
    inputs = draw_inputs(problem, trials(problem)["overflow"], 3)
    x, y = (encoding.decode(inputs.codes[key], out) for key in "ab")
    total = x @ y
    beyond = abs(total) > out.max_finite
    assert beyond.any() and not beyond.all()
    assert (abs(total[beyond]) >= 2 * out.max_finite).all() and (abs(total[~beyond]) <= out.max_finite / 2).all()
    assert {1.0, -1.0} == set(np.sign(total[beyond]))
    assert (abs(total) == abs(x) @ abs(y)).all()  # one sign for each output
    expected = inputs.expected_under(problem)
    infinite = encoding.round_values(total, out)
    largest = encoding.round_values(total, out, saturate=True)
    allowed = [expected.codes, *expected.also]
    assert any((codes == infinite).all() for codes in allowed) == (saturate is not True)
    assert any((codes == largest).all() for codes in allowed) == (saturate or (saturate is None and name != "float16"))


@pytest.mark.parametrize("seed", range(5))
def test_nan_and_infinities_leave_numbers_in_other_rows_and_columns(seed):
    problem = Matmul(9, 8, 40, a="float16")
    for kind in ("nan", "infinity"):
        wanted = encoding.decode(draw_inputs(problem, trials(problem)[kind], seed).expected.codes, problem.out_format)
        assert 0.2 < np.isfinite(wanted).mean() < 0.8


def test_special_elements_stand_where_products_are_not_zero():
    """At a k beyond the budget b is zero outside a block, and 0 * NaN would be a question of its own."""
    problem = Matmul(9, 8, 700, a="bfloat16", accumulate="any")
    inputs = draw_inputs(problem, trials(problem)["nan"], 4)
    x, y = (encoding.decode(inputs.codes[key], problem.a_format) for key in "ab")
    live = (y != 0).any(axis=1)
    assert np.count_nonzero(live) == 256
    assert live[np.isnan(x).any(axis=0)].all() and live[np.isnan(y).any(axis=1)].all()


@pytest.mark.parametrize(("changes", "kind", "words"), [
    ({"nonfinite": "ignore"}, "nan", "nonfinite='ignore'"), ({"alpha": 0.0}, "overflow", "alpha = 0"),
    ({"a": "e4m3"}, "infinity", "float8_e4m3fn has none"), ({"a": "float32"}, "overflow", "same range"),
    ({"accumulate": "any"}, "overflow", "accumulate='any'"), ({"alpha": 2.0}, "subnormal results", "alpha = 2"),
    ({"out": "float32"}, "subnormal results", "no product of normal operands"), ({"a": "int8"}, "nan", "integers have none"),
])
def test_what_is_not_tried_has_a_reason_in_the_report(changes, kind, words):
    problem = Matmul(**{"m": 5, "n": 6, "k": 9, "a": "float16", **changes})
    assert words in SPECIALS.left_out(problem)[kind]
    assert any(words in skipped.reason and kind in f"{skipped.label} {skipped.reason}" for skipped in make_plan(problem).skipped if skipped.probe == "specials")


def test_special_values_come_together_after_the_first_turn_within_the_calls_of_a_plan():
    plan = make_plan(Matmul(64, 64, 4096, a="float16"))
    names = [trial.probe for trial in plan.trials]
    first = names.index("specials")
    assert set(names[:first]) == set(names) - {"specials"}
    assert names[first : first + 5] == ["specials"] * 5 and names.count("specials") == 5
    assert plan.calls <= MOST_CALLS and plan.escape_probability <= plan.wished


def test_a_report_says_what_was_seen_and_one_without_it_can_be_read():
    report = zeroulp.check(lambda a, b: (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype), Matmul(6, 6, 9, a="float16"), seed=1)
    assert report.special_values == {
        "nan": "propagates", "infinity": "infinity", "overflow": "infinity", "subnormal operands": "kept", "subnormal results": "kept"
    }
    assert "NaN and infinities propagate; overflow gives infinity; subnormal operands are kept" in str(report)
    data = json.loads(to_json(report))
    assert from_json(json.dumps(data)) == report
    del data["special_values"]
    data["problem"] |= {"nonfinite": "ieee", "saturate": False}  # as earlier versions wrote
    assert from_json(json.dumps(data)).special_values == {}


def test_what_overflow_gives_follows_from_the_clause_and_the_output():
    contract = Matmul(1, 1, 1, a="float16").contract
    assert contract.on_overflow(format_named("float16")) == "infinity"
    assert contract.on_overflow(format_named("e5m2")) == "either"
    assert Matmul(1, 1, 1, a="e4m3", saturate=True).contract.on_overflow(format_named("e4m3")) == "saturate"
    assert Matmul(1, 1, 1, a="e4m3", saturate=False).contract.on_overflow(format_named("e4m3")) == "infinity"
    for wrong in ("yes", 1, 0.0):
        with pytest.raises(ProblemError, match="neither True, False nor None"):
            Matmul(1, 1, 1, a="float16", saturate=wrong)


def test_the_command_line_knows_the_clauses(capsys):
    shape = ["-m", "5", "-n", "5", "-k", "9", "--a", "e4m3"]
    for flags in (["--saturate"], ["--no-saturate"], ["--nonfinite", "propagate"], ["--nonfinite", "ieee"], ["--nonfinite", "ignore"]):
        assert main(["plan", *shape, *flags]) == 0
    capsys.readouterr()
    assert main(["plan", *shape, "--nonfinite", "maybe"]) == 2
    assert "propagate" in capsys.readouterr().err


def test_inputs_and_expectations_do_not_depend_on_how_this_processor_treats_subnormals():
    torch = pytest.importorskip("torch")
    for name in ("float16", "bfloat16", "float32", "float64"):
        problem = Matmul(6, 5, 9, a=name)
        seen = []
        for flush in (False, True):
            try:
                if not torch.set_flush_denormal(flush):
                    pytest.skip("this processor cannot flush")
                drawn = [draw_inputs(problem, trial, 3) for trial in trials(problem).values()]
                seen.append([np.concatenate([d.codes["a"].ravel(), d.codes["b"].ravel(), d.expected.codes.ravel()]) for d in drawn])
            finally:
                torch.set_flush_denormal(False)
        assert all(np.array_equal(left, right) for left, right in zip(*seen, strict=True))
