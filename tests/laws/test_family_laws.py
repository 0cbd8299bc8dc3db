"""What a probe draws is what its family promises, in every layout: the certificate is about the real inputs."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from zeroulp import Matmul, encoding, make_plan
from zeroulp.checks.inputs import draw_inputs
from zeroulp.reference.expected import total_in_quanta

problems = st.builds(
    lambda m, n, k, a, out, transpose, batch, layouts, accumulate, epilogue: Matmul(
        m, n, k, a=a, out=out if a != "int8" else "", transpose_a=transpose[0], transpose_b=transpose[1], batch=batch,
        layouts=layouts, accumulate="" if a == "int8" else accumulate, **({} if a == "int8" else epilogue)),
    m=st.integers(0, 6), n=st.integers(0, 6), k=st.one_of(st.integers(0, 40), st.sampled_from([300, 2500])),
    a=st.sampled_from(["float16", "bfloat16", "float32", "e4m3", "e5m2", "fp4", "int8", "float64"]),
    out=st.sampled_from(["", "float32", "float16"]), transpose=st.tuples(st.booleans(), st.booleans()),
    batch=st.sampled_from([(), (2,)]), layouts=st.sampled_from(["contiguous", "broadcast", "any", "column"]),
    accumulate=st.sampled_from(["", "any", "float32", "float16"]),
    epilogue=st.sampled_from([{}, {"beta": 0.5}, {"bias": "float32"}, {"alpha": -2.0, "beta": 1.0}]),
)


@given(problem=problems, seed=st.integers(0, 2**64 - 1))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_inputs_stay_within_their_certificate(problem, seed):
    plan = make_plan(problem, trials=4)
    for trial in plan.trials:
        inputs = draw_inputs(problem, trial, seed)
        moduli = total_in_quanta(problem, inputs.family, trial.certificate, inputs.integers, moduli=True)
        assert moduli.max(initial=0) <= trial.certificate.largest_sum
        for operand in problem.operands if trial.probe != "specials" else ():
            values = encoding.decode(inputs.codes[operand.name], operand.format)
            assert np.isfinite(values).all()
            smallest = np.abs(values[values != 0]).min(initial=np.inf)
            assert smallest >= operand.format.min_normal or operand.format.is_integer


@given(problem=problems, seed=st.integers(0, 2**64 - 1))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_expected_results_are_exact_sums_rounded_once(problem, seed):
    """The codes that the kernel gets, multiplied in float64 where that is exact, give the expected codes."""
    if problem.a == "float64":
        return
    plan = make_plan(problem, trials=2)
    for trial in (trial for trial in plan.trials if trial.probe != "specials"):
        inputs = draw_inputs(problem, trial, seed)
        expected = inputs.expected
        value = {
            o.name: np.broadcast_to(encoding.decode(inputs.codes[o.name], o.format), o.shape) for o in problem.operands
        }
        a = np.swapaxes(value["a"], -1, -2) if problem.transpose_a else value["a"]
        b = np.swapaxes(value["b"], -1, -2) if problem.transpose_b else value["b"]
        total = problem.alpha * (a @ b) + problem.beta * value.get("c", 0) + value.get("bias", 0)
        codes = encoding.round_values(total, problem.out_format, saturate=True)
        compared = slice(None) if expected.compared is None else expected.compared
        same = (codes == expected.codes) | ((total == 0) & (encoding.decode(expected.codes, problem.out_format) == 0))
        assert same[compared].all()
