"""States that decay: as one masked product, and in chunks with a carry."""

from __future__ import annotations

import numpy as np

from tests.problems.case import Case, after, before, put
from zeroulp.problems import LinearAttention, StateSpace

F4, LENGTH = np.float32, 9
HEADS, STATE = (0, 1, 2), (0, 1, 0, 2)


def decayed(decay, start=0, length=LENGTH, strict=False):
    """What is left of each step's state at each later one."""
    i = np.arange(length)
    distance = i[:, None] - i - start
    return np.where(np.tri(length, k=-int(strict), dtype=bool), np.ldexp(F4(1), -decay * distance), 0).astype(F4)


def masked(q, k, v, decays=HEADS, mask=decayed):
    q, k, w = (one.astype(F4) for one in (q, k, v))
    return np.stack([((q[:, h] @ k[:, h].swapaxes(1, 2)) * mask(d)) @ w[:, h] for h, d in enumerate(decays)], 1).astype(v.dtype)


def chunked(q, k, v, size=4, carry=True, decay_carry=True):
    """Within a chunk as a product, between chunks by a state."""
    out, (q, k, w) = np.zeros(v.shape, F4), (one.astype(F4) for one in (q, k, v))
    for h, d in enumerate(HEADS):
        state = np.zeros((len(v), k.shape[3], v.shape[3]), F4)
        for start in range(0, LENGTH, size):
            part = slice(start, min(start + size, LENGTH))
            n, i = part.stop - start, np.arange(part.stop - start)
            a, b, c = q[:, h, part], k[:, h, part], w[:, h, part]
            old = np.ldexp(F4(1), -d * (i + 1)).astype(F4)[:, None] * (a @ state)
            out[:, h, part] = (a @ b.swapaxes(1, 2) * decayed(d, length=n)) @ c + old
            left = np.ldexp(F4(1), -d * (n - 1 - i)).astype(F4)[:, None]
            state = (np.ldexp(F4(1), -d * n if decay_carry else 0) * state if carry else 0) + (b * left).swapaxes(1, 2) @ c
    return out.astype(v.dtype)


def convolved(x, b, c, decays=STATE, mask=decayed):
    """Every element of the state by itself, as one product over all steps."""
    out = np.zeros(x.shape, F4)
    for n, decay in reversed(list(enumerate(decays))):
        out += (c[:, :, None, n] * mask(decay) * b[:, None, :, n]) @ x
    return out


def backwards(x, b, c, length=LENGTH):
    """By an associative scan of pairs (factor, state), in steps of 1, 2, 4, ..."""
    state = x[:, :, :, None] * b[:, :, None, :]
    factor = np.broadcast_to(np.ldexp(F4(1), -np.array(STATE)), state.shape).astype(F4)
    step = 1
    while step < length:
        state = np.concatenate([state[:, :step], state[:, step:] + factor[:, step:] * state[:, :-step]], 1)
        factor = np.concatenate([factor[:, :step], factor[:, step:] * factor[:, :-step]], 1)
        step *= 2
    return (state * c[:, :, None, :])[..., ::-1].sum(-1)


CASES = [
    Case(LinearAttention(2, LENGTH, 3, 4, decays=HEADS), {"masked": masked, "chunks": chunked}, {
        "decay missing": lambda q, k, v: masked(q, k, v, (0, 0, 0)),
        "decay of the next head": lambda q, k, v: masked(q, k, v, (1, 2, 0)),
        "decay one step too early": lambda q, k, v: masked(q, k, v, mask=lambda d: decayed(d, -1)),
        "without the step itself": lambda q, k, v: masked(q, k, v, mask=lambda d: decayed(d, strict=True)),
        "not causal": lambda q, k, v: masked(q, k, v, mask=lambda d: np.maximum(decayed(d), decayed(d).T)),
        "carry lost": lambda q, k, v: chunked(q, k, v, carry=False),
        "carry not decayed": lambda q, k, v: chunked(q, k, v, decay_carry=False),
        "keys and queries exchanged": lambda q, k, v: masked(k, q, v),
        "last step left out": after(masked, put(0, ..., -1, slice(None))),
    }),
    Case(LinearAttention(1, 40, 4, 3, format="bfloat16"), {"sums": lambda q, k, v: summed(q, k, v)}, {
        "not causal": lambda q, k, v: summed(q, k, v, reach=lambda n: n),
        "without the step itself": lambda q, k, v: summed(q, k, v, shift=1),
        "state in bfloat16": lambda q, k, v: summed(q, k, v, state=v.dtype),
        "tail of the keys left out": before(lambda q, k, v: summed(q, k, v), x1=put(0, ..., -1)),
        "first step left out": before(lambda q, k, v: summed(q, k, v), x2=put(0, ..., 0, slice(None))),
    }),
    Case(StateSpace(2, LENGTH, 3, decays=STATE), {"convolved": convolved, "scanned": backwards}, {
        "decay missing": lambda x, b, c: convolved(x, b, c, (0, 0, 0, 0)),
        "decays of the next": lambda x, b, c: convolved(x, b, c, (1, 0, 2, 0)),
        "state not cleared": lambda x, b, c: convolved(x, b, c) + F4(1) * c[:, :, :1] * (x[::-1, -1:] * b[::-1, -1:, :1]),
        "b and c exchanged": lambda x, b, c: convolved(x, c, b),
        "without the step itself": lambda x, b, c: convolved(x, b, c, mask=lambda d: decayed(d, strict=True)),
        "scan one step short": lambda x, b, c: backwards(x, b, c, 8),
        "tail of the state left out": before(convolved, x2=put(0, ..., -1)),
    }),
]


def summed(q, k, v, reach=None, shift=0, state=F4):
    """Running sums of outer products."""
    q, k, w = (one.astype(F4) for one in (q, k, v))
    outer = (k[..., :, None] * w[..., None, :]).astype(state)
    total = np.zeros(outer.shape[:2] + outer.shape[3:], state)
    states = []
    for step in range(outer.shape[2]):
        states.append(total)
        total = total + outer[:, :, step]
    states = states if shift else [*states[1:], total]
    states = [total] * len(states) if reach else states
    return np.einsum("bhld,bhlde->bhle", q, np.stack(states, 2).astype(F4)).astype(v.dtype)
