"""
Print every figure of ``docs/why.md``.

Each section is a pure function that returns the lines it prints.
Operands are drawn from the raw stream of a seeded PCG64, sums are taken in a stated order or are exact
in every order, so the lines are the same on every machine.

    python examples/why.py                      # all sections
    python examples/why.py --section orders     # one of them
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Iterable, Sequence

import ml_dtypes
import numpy as np
import numpy.typing as npt

Float16 = npt.NDArray[np.float16]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Kernel = Callable[[Float16, Float16], Float16]

GRID_BITS = 20
SIDE = 128
TRIALS = 5


def raw_bits(seed: Sequence[int], shape: tuple[int, ...], bits: int) -> npt.NDArray[np.int64]:
    """Return uniform integers in [0, 2**bits), from the top bits of the PCG64 stream of *seed*."""
    stream = np.asarray(np.random.PCG64(list(seed)).random_raw(math.prod(shape)), dtype=np.uint64)
    return np.asarray(stream >> np.uint64(64 - bits), dtype=np.int64).reshape(shape)


def uniform(seed: Sequence[int], shape: tuple[int, ...], *, signed: bool = False) -> Float64:
    """
    Return multiples of 2**-20, uniform on [0, 1), or on [-1, 1) if *signed*.

    Exactness:
        Rounding to FP16 keeps multiples of 2**-20, so a float64 sum of k products of such values is exact
        in every order if ``k * 2**20 * 2**20 <= 2**53``, that is up to k = 8192.
    """
    unit = np.asarray(raw_bits(seed, shape, GRID_BITS), dtype=np.float64) * 2.0**-GRID_BITS
    return 2 * unit - 1 if signed else unit


def nonzero_integers(seed: Sequence[int], shape: tuple[int, ...], magnitude: int) -> Float16:
    """
    Return integers of +-1 .. +-*magnitude*, a power of two, uniform and never 0.

    Exactness:
        Representable in FP16 if ``magnitude <= 2**11``.
    """
    index = raw_bits(seed, shape, 1 + int(math.log2(magnitude))) - magnitude
    return np.asarray(index + (index >= 0), dtype=np.float16)


def uniform_operands(trial: int, k: int) -> tuple[Float16, Float16]:
    """Return a: (128, k) and b: (k, 128), uniform on [0, 1] and rounded to FP16."""
    a = uniform((trial, 0), (SIDE, k)).astype(np.float16)
    b = uniform((trial, 1), (k, SIDE)).astype(np.float16)
    return a, b


def integer_operands(trial: int, k: int, magnitude: int) -> tuple[Float16, Float16]:
    """Return a: (128, k) and b: (k, 128), integers of +-1 .. +-*magnitude*."""
    a = nonzero_integers((trial, 0), (SIDE, k), magnitude)
    b = nonzero_integers((trial, 1), (k, SIDE), magnitude)
    return a, b


def partial_sum(a: Float16, b: Float16) -> Float32:
    """
    Return the sum over ascending k in FP32, for a: (m, k) and b: (k, n).

    Exactness:
        Each product of two FP16 values is exact in FP32. The sum is exact if the products are multiples of
        one quantum and ``k * max|a| * max|b| <= 2**24`` quanta; otherwise it rounds at each step.
    """
    columns, rows = a.T.astype(np.float32), b.astype(np.float32)
    total = np.zeros((a.shape[0], b.shape[1]), dtype=np.float32)
    product = np.empty_like(total)
    for column, row in zip(columns, rows, strict=True):
        np.multiply(column[:, None], row, out=product)
        total += product
    return total


def ascending(a: Float16, b: Float16) -> Float16:
    """Return a @ b: FP32 sum over ascending k, one rounding to FP16. Correct."""
    return partial_sum(a, b).astype(np.float16)


def split_k(a: Float16, b: Float16) -> Float16:
    """Return a @ b: FP32 sums over the four quarters of k, added in FP32, one rounding to FP16. Correct."""
    k = a.shape[1]
    total = np.zeros((a.shape[0], b.shape[1]), dtype=np.float32)
    for start in range(0, k, k // 4):
        part = slice(start, start + k // 4)
        total += partial_sum(a[:, part], b[part])
    return total.astype(np.float16)


def float16_accumulator(a: Float16, b: Float16) -> Float16:
    """
    Return a @ b over ascending k, the running sum rounded to FP16 after every product.

    Exactness:
        Exact if the products are multiples of one quantum and ``k * max|a| * max|b| <= 2**11`` quanta.
    """
    columns, rows = a.T.astype(np.float32), b.astype(np.float32)
    total = np.zeros((a.shape[0], b.shape[1]), dtype=np.float16)
    for column, row in zip(columns, rows, strict=True):
        total = (total + column[:, None] * row).astype(np.float16)
    return total


def losing(lost: int) -> Kernel:
    """Return a wrong kernel: ``ascending`` without the last *lost* products of each sum."""

    def kernel(a: Float16, b: Float16) -> Float16:
        kept = a.shape[1] - lost
        return ascending(a[:, :kept], b[:kept])

    return kernel


def difference(actual: Float16, expected: Float16 | Float32) -> Float64:
    """Return |actual - expected|, exact, elementwise."""
    return np.abs(actual.astype(np.float64) - expected.astype(np.float64))


def allclose(actual: Float16, expected: Float16, *, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
    """Return numpy's allclose with its own defaults, the limits computed in float64."""
    return np.allclose(actual.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=atol)


def differing_bits(actual: Float16, expected: Float16) -> int:
    """Return how many elements differ in at least one bit."""
    return int(np.count_nonzero(actual.view(np.uint16) != expected.view(np.uint16)))


def yes_no(answer: object) -> str:
    """Return "yes" for what is true, else "no"."""
    return "yes" if answer else "no"


def precision(dtype: npt.DTypeLike) -> int:
    """Return the precision of *dtype*: the smallest p for which 2**p + 1 rounds back to 2**p."""
    return next(p for p in itertools.count(1) if float(np.asarray(2.0**p + 1).astype(dtype)) == 2.0**p)


def rounding() -> list[str]:
    """Return the sums that show where FP16 and BF16 stop holding every integer."""
    half, brain = np.float16, ml_dtypes.bfloat16
    ones = np.zeros((), dtype=np.float16)
    for _ in range(4096):
        ones += half(1)
    return [
        f"FP16   2048 + 1       = {float(half(2048) + half(1)):.0f}",
        f"FP16   (2048 + 1) + 1 = {float((half(2048) + half(1)) + half(1)):.0f}",
        f"FP16   2048 + (1 + 1) = {float(half(2048) + (half(1) + half(1))):.0f}",
        f"FP16   1 added 4096 times, one after the other = {float(ones):.0f}",
        f"BF16   256 + 1        = {float(brain(256) + brain(1)):.0f}",
        f"precision: FP32 {precision(np.float32)}, FP16 {precision(half)}, BF16 {precision(brain)}",
    ]


def exact_product(a: Float16, b: Float16) -> Float64:
    """
    Return a @ b for a: (..., m, k) and b: (..., k, n), without any rounding.

    Exactness:
        ``k * max|a| * max|b| <= 2**53`` quanta, as ``uniform`` guarantees up to k = 8192.
    """
    return np.asarray(a.astype(np.float64) @ b.astype(np.float64), dtype=np.float64)


def both_formats(a: Float64, b: Float64) -> tuple[Float16, Float32]:
    """
    Return the FP16 and the FP32 product of a: (..., m, k) and b: (..., k, n).

    FP32 product: the exact sum, rounded once to FP32.
    FP16 product: operands rounded to FP16, their exact sum, rounded once to FP16.
    No kernel that takes and returns that format can be closer to the truth.

    Exactness:
        Both sums are exact in float64 in every order, see ``uniform``.
    """
    narrow = exact_product(a.astype(np.float16), b.astype(np.float16))
    return narrow.astype(np.float16), (a @ b).astype(np.float32)


def format_line(name: str, sizes: str, blocks: Iterable[tuple[Float64, Float64]]) -> str:
    """Return one row of ``formats``: the FP16 against the FP32 product, over *blocks* of operands (a, b)."""
    largest, outside, outputs = 0.0, 0, 0
    for a, b in blocks:
        narrow, wide = both_formats(a, b)
        gap = difference(narrow, wide)
        largest = max(largest, float(gap.max()))
        outside += int(np.count_nonzero(gap > 1e-2 + 1e-2 * np.abs(wide.astype(np.float64))))
        outputs += gap.size
    return f"{name:<9}  {sizes:<31}  {largest:<7.3g}  {outside:>2} of {outputs}"


def large_line(name: str, *, signed: bool) -> str:
    """Return the row of one product with m = 10000, k = n = 1000, taken in blocks of 1000 rows."""
    a = uniform((0, 0), (10000, 1000), signed=signed)
    b = uniform((0, 1), (1000, 1000), signed=signed)
    blocks = ((a[start : start + 1000], b) for start in range(0, 10000, 1000))
    return format_line(name, "(10000 x 1000) x (1000 x 1000)", blocks)


def small_line(name: str, *, signed: bool) -> str:
    """Return the row of 10000 products with m = k = n = 2."""
    a = uniform((0, 2), (10000, 2, 2), signed=signed)
    b = uniform((0, 3), (10000, 2, 2), signed=signed)
    return format_line(name, "(2 x 2) x (2 x 2), 10000 times", [(a, b)])


def formats() -> list[str]:
    """Return how far the FP16 product is from the FP32 product, at two sizes and for two input ranges."""
    return [
        "inputs     sizes                            largest  outside 1e-2",
        large_line("U(0, 1)", signed=False),
        small_line("U(0, 1)", signed=False),
        large_line("U(-1, 1)", signed=True),
        small_line("U(-1, 1)", signed=True),
    ]


def tolerances_needed(actual: Float16, expected: Float16) -> tuple[float, float]:
    """Return the least atol that passes with rtol = 0, and the least rtol with atol = 0, for expected > 0."""
    gap = difference(actual, expected)
    return float(gap.max()), float((gap / expected).max())


def order_line(k: int) -> str:
    """Return one row of the table of ``orders``."""
    a, b = uniform_operands(0, k)
    expected = ascending(a, b)
    split, wrong = split_k(a, b), losing(1)(a, b)
    differing = f"{differing_bits(split, expected)} of {expected.size}"
    split_atol, split_rtol = tolerances_needed(split, expected)
    wrong_atol, wrong_rtol = tolerances_needed(wrong, expected)
    atols = f"{split_atol:>10g}  {wrong_atol:>8g}"
    rtols = f"{split_rtol:>8.4%}  {wrong_rtol:>8.4%}"
    return f"{k:>5}  {differing:>11}   {atols}   {rtols}   {yes_no(allclose(split, expected))}"


def orders() -> list[str]:
    """Return the tolerances that a correct and a wrong kernel need to pass, as k grows."""
    return [
        "       split-K       smallest atol          smallest rtol        split-K passes",
        "    k  differs in       split-K     wrong    split-K     wrong   allclose defaults",
        *(order_line(k) for k in (16, 256, 4096, 16384)),
    ]


def tolerance_line(lost: int) -> str:
    """Return one row of the table of ``tolerance``: the worst differences and the verdicts of all trials."""
    largest, relative, passes = 0.0, 0.0, 0
    for trial in range(TRIALS):
        a, b = uniform_operands(trial, 4096)
        expected, actual = ascending(a, b), losing(lost)(a, b)
        atol_needed, rtol_needed = tolerances_needed(actual, expected)
        largest, relative = max(largest, atol_needed), max(relative, rtol_needed)
        passes += allclose(actual, expected, rtol=1e-2, atol=1e-2)
    return f"{lost:>2} of 4096       {largest:>7.1f}   {relative:>8.2%}   {passes} of {TRIALS} trials"


def tolerance() -> list[str]:
    """Return what rtol = atol = 1e-2 says of a kernel that loses the end of every sum."""
    heading = "lost products   largest   relative   accepted"
    return [heading, *(tolerance_line(lost) for lost in (1, 16, 64))]


def integer_lines(k: int, magnitude: int, p: int, kernels: dict[str, Kernel]) -> list[str]:
    """Return the exactness condition for integers up to *magnitude*, then how each kernel differs."""
    a, b = integer_operands(0, k, magnitude)
    expected = ascending(a, b)
    terms, budget = k * magnitude * magnitude, 2**p
    answer = yes_no(terms <= budget)
    counts = {name: differing_bits(kernel(a, b), expected) for name, kernel in kernels.items()}
    return [
        f"{k} * {magnitude} * {magnitude} = {terms} <= 2**{p} = {budget}: {answer}",
        *(f"  {name:<18} {count:>5} of {expected.size} outputs differ" for name, count in counts.items()),
    ]


def integers() -> list[str]:
    """Return how the kernels compare on non-zero integers small enough for every sum to be exact."""
    wrong = losing(1)
    fp32 = {"split-K": split_k, "last product lost": wrong}
    fp16 = {"split-K": split_k, "FP16 accumulator": float16_accumulator, "last product lost": wrong}
    return [*integer_lines(4096, 2, 24, fp32), *integer_lines(512, 2, 11, fp16)]


def relative_error(kernel: Kernel, a: Float16, b: Float16) -> float:
    """Return the largest |kernel - exact| / exact over the outputs, for positive a: (m, k) and b: (k, n)."""
    exact = exact_product(a, b)
    return float(np.max(np.abs(kernel(a, b).astype(np.float64) - exact) / exact))


def limits() -> list[str]:
    """Return how far two kernels that agree on small integers are from the truth on U(0, 1)."""
    a, b = uniform_operands(0, 4096)
    kernels = {"FP32 accumulator": ascending, "FP16 accumulator": float16_accumulator}
    errors = {name: relative_error(kernel, a, b) for name, kernel in kernels.items()}
    return [f"{name}   largest relative error {error:>5.2%}" for name, error in errors.items()]


def bits() -> list[str]:
    """Return how allclose with zero tolerance differs from equality of bits."""
    zero, nan = np.zeros(1, dtype=np.float16), np.full(1, np.nan, dtype=np.float16)
    pairs = {"-0 and +0": (-zero, zero), "NaN and itself": (nan, nan)}
    return [
        f"{name:<14}   allclose {yes_no(allclose(x, y, rtol=0, atol=0)):<3}"
        f"   same bits {yes_no(differing_bits(x, y) == 0)}"
        for name, (x, y) in pairs.items()
    ]


SECTIONS: dict[str, Callable[[], list[str]]] = {
    "rounding": rounding,
    "formats": formats,
    "orders": orders,
    "tolerance": tolerance,
    "integers": integers,
    "limits": limits,
    "bits": bits,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the chosen sections and return the exit status."""
    parser = argparse.ArgumentParser(description="Print every figure of docs/why.md.")
    parser.add_argument("--section", choices=SECTIONS, help="print this section only")
    chosen = parser.parse_args(argv).section
    for name in [chosen] if chosen else SECTIONS:
        if not chosen:
            print(f"[{name}]")
        print("\n".join(SECTIONS[name]()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
