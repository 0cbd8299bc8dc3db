"""
References whose outputs hardly depend on what they are given, as they occur: never CORRECT, and the cause is named.

Programs after KernelBench's, written out small. Where nothing in them is exact they are run on numbers as they occur;
where the drawings of a check make them live, a kernel that ignores its inputs is found.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from zeroulp import Linear, Tensor, check
from zeroulp.errors import ProgramError

F = torch.nn.functional


def weight(name, *shape):
    return Tensor(name, shape, role="weight")


X, W, B = Tensor("x", (16, 64)), weight("w", 32, 64), weight("b", 32)
VOLUME = [Tensor("x", (2, 3, 6, 6, 6)), weight("w", 8, 3, 3, 3, 3), weight("b", 8)]


def subtract_and_relu(x, w, b):
    return torch.relu((F.linear(x, w, b) - 2.0) * 1.5)


def less_the_mean_of_itself(x, w, b):
    x = F.linear(x, w, b).max(1, keepdim=True).values
    return F.gelu(x - x.mean(1, keepdim=True))


def clamped_to_nothing(x, w, b, gamma, beta):
    x = F.group_norm(F.conv3d(x, w, b), 4, gamma, beta)
    return torch.min(x, torch.tensor(0.0)).clamp(0.0, 1.0)


def gelu_of_what_is_negative(x, w, b):
    x = F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1)
    return F.gelu(x.min(1, keepdim=True)[0].sum(2, keepdim=True)) + b


def mean_of_what_is_normalised(x, w, b):
    return F.group_norm(F.conv3d(x, w, b), 4).mean([1, 2, 3, 4])


def attention_over_the_batch(x, w, position, token, query, key, last):
    tokens = torch.cat((token.expand(x.shape[0], -1, -1), F.linear(x, w)), 1) + position
    places = tokens.transpose(0, 1)
    scores = F.linear(places, query) @ F.linear(places, key).transpose(1, 2)
    tokens = tokens + (torch.softmax(scores, -1) @ places).transpose(0, 1)
    return F.linear(F.layer_norm(tokens, (8,))[:, 0], last)


def global_mean(x, w, b):
    x = F.conv_transpose2d(x, w).mean((2, 3), keepdim=True) + b
    return x.logsumexp(1, keepdim=True).sum((2, 3)) * 10.0


def logsumexp_of_many(x, w, b):
    return F.gelu(F.leaky_relu(F.linear(x, w, b).logsumexp(1, keepdim=True)))


def logsumexp_of_gates(x, w, b, v, c):
    return F.linear(torch.sigmoid(F.linear(x, w, b)), v, c).logsumexp(1)


def average_of_products(x, w, b):
    return (F.adaptive_avg_pool3d(F.max_pool3d(F.conv3d(x, w) / 2.0, 2), 1) + b).sum(1)


def most_of_swish(x, w, s):
    x = F.max_pool3d(F.conv_transpose3d(x, w, stride=2, padding=1, output_padding=1), 2).softmax(1)
    x = x - s.view(1, -1, 1, 1, 1)
    return (torch.sigmoid(x) * x).max(1)[0]


def squared_logsumexp(x, w):
    x = (F.linear(x, w) * 4).clamp(-10, 10).logsumexp(1, keepdim=True)
    return x * F.mish(x)


def deep(x, *weights):
    for w in weights:
        x = torch.relu(F.linear(x, w))
    return x


def constants(reference, *shapes):
    """The reference with weights of its own, as a layer of PyTorch has them."""
    generator = torch.Generator().manual_seed(0)
    made = [torch.rand(shape, generator=generator) * 2 - 1 for shape in shapes]
    made = [w / w[0].numel() ** 0.5 if w[0].numel() > 1 else w / 8 for w in made]
    return lambda x: reference(x, *(w.to(x.dtype) for w in made))


OUTPUTS = [
    (less_the_mean_of_itself, [X, W, B], "operation 4, sub"),
    (clamped_to_nothing, [*VOLUME, weight("gamma", 8), weight("beta", 8)], "operation 4, clamp"),
    (mean_of_what_is_normalised, VOLUME, "operation 3, mean"),
    (constants(subtract_and_relu, (32, 64), (32,)), [X], "relu"),
    (gelu_of_what_is_negative, [Tensor("x", (2, 16, 24, 24)), weight("w", 16, 32, 3, 3), weight("b", 1, 1, 1)], "operation 4, gelu"),
    (attention_over_the_batch, [Tensor("x", (4, 3, 12)), weight("w", 8, 12), weight("position", 1, 4, 8), weight("token", 1, 1, 8),
                                weight("query", 8, 8), weight("key", 8, 8), weight("last", 5, 8)], "operation 11, mm"),
]
INPUTS = [
    (global_mean, [Tensor("x", (2, 8, 40, 40)), weight("w", 8, 16, 3, 3), weight("b", 16, 1, 1)]),
    (logsumexp_of_many, [Tensor("x", (8, 512)), weight("w", 512, 512), weight("b", 512)]),
    (logsumexp_of_gates, [Tensor("x", (8, 128)), weight("w", 256, 128), weight("b", 256), weight("v", 64, 256), weight("c", 64)]),
    (constants(lambda x, w, b: average_of_products(x, w, 40 * b.abs()), (8, 4, 3, 3, 3), (8, 1, 1, 1)), [Tensor("x", (2, 4, 16, 16, 16))]),
    (constants(lambda x, *weights: torch.sin(deep(x, *weights) + 1), *[(16, 16)] * 12), [Tensor("x", (4, 16))]),
    (most_of_swish, [Tensor("x", (2, 3, 4, 8, 8)), weight("w", 3, 16, 3, 3, 3), weight("s", 16)]),
]
LIVE = [
    (subtract_and_relu, [X, W, B]),
    (average_of_products, [Tensor("x", (2, 4, 10, 10, 10)), weight("w", 8, 4, 3, 3, 3), weight("b", 8, 1, 1, 1)]),
    (deep, [Tensor("x", (4, 16)), *(weight(f"w{i}", 16, 16) for i in range(8))]),
]


def report_of(reference, tensors, kernel=None, **options):
    kernel = kernel or (lambda *operands: reference(*operands))
    return check(kernel, Linear(reference, tensors, division="last"), seed=3, framework="torch", **options)


@pytest.mark.parametrize(("reference", "tensors", "cut"), OUTPUTS)
def test_an_output_that_depends_on_no_input_is_vacuous_and_the_operation_is_named(reference, tensors, cut):
    report = report_of(reference, tensors)
    assert report.verdict.value == "INCONCLUSIVE"
    reason = report.reasons[0][0]
    assert reason.startswith("vacuous: no element changes") and cut in reason, reason


@pytest.mark.parametrize(("reference", "tensors"), INPUTS)
def test_an_output_that_inputs_hardly_change_is_vacuous(reference, tensors):
    report = report_of(reference, tensors)
    assert report.verdict.value == "INCONCLUSIVE"
    assert report.reasons[0][0].startswith("vacuous: all inputs together change the output by "), report.reasons


@pytest.mark.parametrize(("reference", "tensors"), LIVE)
def test_what_is_degenerate_on_numbers_as_they_occur_is_live_on_the_drawings_of_a_check(reference, tensors):
    assert report_of(reference, tensors).verdict.value == "CORRECT"
    for ignorant in (lambda *operands: torch.zeros_like(reference(*operands)),
                     lambda x, *weights: reference(torch.zeros_like(x), *weights)):
        assert report_of(reference, tensors, ignorant).verdict.value == "INCORRECT"


@pytest.mark.parametrize(("reference", "tensors"), [
    (lambda x, b: x.sum(1) / 3 * 0.1 + b, [Tensor("x", (64, 3)), weight("b", 64)]),
    (constants(deep, *[(16, 16)] * 12), [Tensor("x", (4, 16))]),
])
def test_an_element_that_is_exact_because_an_input_adds_nothing_to_it_does_not_show_that_input(reference, tensors):
    for kernel in (None, lambda x, *others: reference(torch.zeros_like(x), *others)):
        report = report_of(reference, tensors, kernel)
        assert report.verdict.value != "CORRECT" or kernel is None and report.tracking.live["x"] > 0


def test_an_operand_that_vanishes_in_a_norm_is_named_although_nothing_is_exact():
    def reference(x, w, b):
        return F.instance_norm(F.conv2d(x, w, b)).sin()

    report = report_of(reference, [Tensor("x", (2, 3, 9, 9)), weight("w", 4, 3, 3, 3), weight("b", 4)])
    assert report.verdict.value == "INCONCLUSIVE"
    (named,) = [reason for reason, _ in report.reasons if "vacuous" in reason]
    assert named.startswith("vacuous: operand b never matters: ")


@pytest.mark.parametrize(("reference", "tensors"), [
    (squared_logsumexp, [Tensor("x", (2, 64)), weight("w", 512, 64)]),
    (lambda x, w: torch.tanh(F.linear(x, w)), [X, W]),
    (lambda x, i: torch.sin(x[i]), [Tensor("x", (9, 5)), Tensor("i", (4,), role="index", below=9)]),
    (lambda x, m: torch.where(m, torch.exp(x), torch.sin(x)), [Tensor("x", (9, 5)), Tensor("m", (9, 5), role="mask")]),
    (lambda x, w: (torch.sin(9 * F.linear(x, w)) > 0).float() + torch.sin(F.linear(x, w)), [X, W]),
    (lambda x, w: torch.sigmoid(F.linear(x, w)).argmax(1), [X, W]),
    (lambda x, s: torch.sqrt(x) * s, [Tensor("x", (9, 5)), Tensor("s", (), role="scalar")]),
    (lambda x, w: torch.sin(x @ w), [Tensor("x", (3, 8), "bfloat16"), Tensor("w", (8, 4), "bfloat16", "weight")]),
])
def test_a_reference_that_depends_on_its_operands_is_not_called_vacuous(reference, tensors):
    report = report_of(reference, tensors)
    assert report.verdict.value == "INCONCLUSIVE" and report.coverage == 0
    assert not any("vacuous" in reason for reason, _ in report.reasons)


def test_a_fault_of_shape_is_found_although_the_reference_is_vacuous():
    report = report_of(less_the_mean_of_itself, [X, W, B], lambda x, w, b: torch.zeros(16))
    assert report.verdict.value in ("INCORRECT", "BROKEN")


@pytest.mark.parametrize("reference", [
    lambda x, w: F.linear(x, w) + torch.randn(32),
    lambda x, w: F.linear(F.dropout(x, 0.2), w),
])
def test_a_random_state_or_dropout_within_is_one_clear_error(reference):
    with pytest.raises(ProgramError, match="the reference is random"):
        report_of(reference, [X, W])
