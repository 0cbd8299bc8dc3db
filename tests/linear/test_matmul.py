"""A matmul, given by a reference, is what `Matmul` is: bit for bit on its own inputs."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from zeroulp import Linear, Matmul, Tensor, make_plan
from zeroulp.checks.inputs import draw_inputs
from zeroulp.encoding import array_of
from zeroulp.linear import follow, resolved

OUT = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}


def given_by_reference(problem):
    out = OUT[problem.out]

    def reference(a, b, *rest):
        product = problem.alpha * (a.mT if problem.transpose_a else a).float() @ (b.mT if problem.transpose_b else b).float()
        rest = list(rest)
        product = product + problem.beta * rest.pop(0).float() if problem.beta else product
        return (product + rest.pop(0).float() if problem.bias else product).to(out)

    tensors = [Tensor(operand.name, operand.shape, operand.format.name) for operand in problem.operands]
    return Linear(reference, tensors)


@pytest.mark.parametrize("problem", [
    Matmul(9, 7, 33, a="float32"), Matmul(9, 7, 33, a="float16"), Matmul(9, 7, 300, a="bfloat16"),
    Matmul(5, 6, 20, a="bfloat16", out="float32", batch=(3,)), Matmul(9, 7, 33, a="float16", transpose_b=True, transpose_a=True),
    Matmul(9, 7, 33, a="float16", bias="float16"), Matmul(9, 7, 33, a="float32", alpha=2, beta=0.5),
], ids=str)
@pytest.mark.parametrize("seed", [3, 4])
def test_both_expect_the_same_bits(problem, seed):
    linear, compared, elements = given_by_reference(problem), 0, 0
    for trial in make_plan(problem, trials=1).trials:
        if trial.certificate.theorem == "bounded" or trial.probe == "specials":
            continue
        inputs = draw_inputs(problem, trial, seed)
        formats = {operand.name: operand.format for operand in problem.operands}
        values = {name: np.array(array_of(codes, formats[name])) for name, codes in inputs.codes.items()}
        followed = follow(resolved(linear, values), values)
        assert not followed.demoted
        expected = inputs.expected
        mask = followed.compared if expected.compared is None else followed.compared & expected.compared
        zeros = (followed.expected.codes == 0) & (inputs.expected.codes << 1 == 0)
        assert ((followed.expected.codes == expected.codes) | zeros)[mask].all(), trial
        compared, elements = compared + int(mask.sum()), elements + mask.size
        if trial.probe in ("signed", "sparse", "cover"):
            assert mask.all() or expected.compared is not None, trial
    assert compared > 0.6 * elements
