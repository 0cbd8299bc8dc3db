"""A state that decays and takes something in at each step: linear attention and state-space scans."""

from __future__ import annotations

from typing import Any

from zeroulp.errors import UsageError
from zeroulp.problem import Linear, Tensor
from zeroulp.problems.reference import problem, reference

_DEEPEST = 60


def LinearAttention(
    batch: int,
    length: int,
    key: int,
    value: int,
    *,
    decays: tuple[int, ...] = (0,),
    format: str = "float32",  # noqa: A002
    **contract: Any,
) -> Linear:
    """
    Causal attention without a softmax: at each step S = 2**-decay * S + outer(k, v), and the output is q @ S.

    Args:
        batch: How many sequences.
        length: Steps of each.
        key: Elements of q and k.
        value: Elements of v and of the output.
        decays: One for each head; 0 forgets nothing.
        format: Of all operands and of the output.
        contract: Further arguments of `zeroulp.Linear`.

    Returns:
        The problem: q and k (batch, heads, length, key), v and out (batch, heads, length, value). Sums in float32,
        stored once. Every step of a head that decays takes as many bits as its decay: after about 20 bits (20 steps
        with decay 1) nothing is sure any more, and is not compared.

    Raises:
        UsageError: If a decay is negative or very large.
    """
    first = (batch, len(decays), length)
    operands = [Tensor("q", (*first, key), format), Tensor("k", (*first, key), format)]
    operands += [Tensor("v", (*first, value), format)]
    arguments = {"decays": _decays(decays)}
    return problem(linear_attention, arguments, operands, name="linear_attention", format=format, contract=contract)


def _decays(decays: tuple[int, ...]) -> list[int]:
    if not decays or any(not isinstance(d, int) or not 0 <= d <= _DEEPEST for d in decays):
        raise UsageError(f"decays {decays!r}", do=f"whole numbers from 0 to {_DEEPEST}, one at least")
    return list(decays)


@reference
def linear_attention(torch: Any, q: Any, k: Any, v: Any, *, decays: list[int]) -> Any:
    """For `LinearAttention`, head by head, and step by step where it forgets: so late steps spoil no early ones."""
    heads = []
    for head, decay in enumerate(decays):
        queries, keys, values = (one[:, head].float() for one in (q, k, v))
        if decay == 0:
            heads.append((queries @ keys.mT).tril() @ values)
            continue
        state, out = None, []
        for step in range(q.shape[2]):
            new = keys[:, step, :, None] * values[:, step, None, :]
            state = new if state is None else 2.0**-decay * state + new
            out.append((queries[:, step, None, :] @ state)[:, 0])
        heads.append(torch.stack(out, 1))
    return torch.stack(heads, 1).to(q.dtype)


def StateSpace(
    batch: int,
    length: int,
    channels: int,
    *,
    decays: tuple[int, ...] = (0, 1),
    format: str = "float32",  # noqa: A002
    **contract: Any,
) -> Linear:
    """
    A selective state-space scan: at each step h = 2**-decay * h + b * x, and the output is the sum of c * h.

    Args:
        batch: How many sequences.
        length: Steps of each.
        channels: Of x and of the output, each with a state of its own.
        decays: One for each element of a state; 0 forgets nothing.
        format: Of all operands and of the output.
        contract: Further arguments of `zeroulp.Linear`.

    Returns:
        The problem: x and out (batch, length, channels), b and c (batch, length, state). Sums in float32, stored once.
        Steps take bits as in `LinearAttention`.

    Raises:
        UsageError: If a decay is negative or very large.
    """
    x = Tensor("x", (batch, length, channels), format)
    operands = [x, *(Tensor(name, (batch, length, len(decays)), format) for name in "bc")]
    arguments = {"decays": _decays(decays)}
    return problem(state_space, arguments, operands, name="state_space", format=format, contract=contract)


@reference
def state_space(torch: Any, x: Any, b: Any, c: Any, *, decays: list[int]) -> Any:
    """For `StateSpace`, step by step."""
    x, b, c, dtype = x.float(), b.float(), c.float(), x.dtype
    factors = torch.tensor([2.0**-decay for decay in decays], device=x.device)
    state, out = None, []
    for step in range(x.shape[1]):
        new = x[:, step, :, None] * b[:, step, None, :]
        state = new if state is None else factors * state + new
        out.append((state @ c[:, step, :, None])[..., 0])
    return torch.stack(out, 1).to(dtype)
