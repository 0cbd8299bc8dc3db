"""
The example kernels against plain references, without any of zeroulp's own code.

On small integers every sum is exact in every format, so the correct kernels must equal an int64 product. The
C file converts formats by itself; products with 1 and with each other show that it does so for all codes.
"""

import ctypes
import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FORMATS = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
}
OUTPUTS = FORMATS | {"float8_e4m3fn": np.dtype(np.float32)}
SHAPES = [(0, 3, 2), (3, 0, 2), (1, 1, 0), (1, 1, 1), (2, 65, 17), (33, 1, 129), (65, 66, 257), (64, 64, 256)]
RAGGED = (5, 37, 67)

each_format = pytest.mark.parametrize("name", FORMATS)
each_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, EXAMPLES / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wrong(name: str):
    return load(f"wrong/{name}.py").matmul


def integers(shape: tuple[int, int, int], seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Operands in -2..2, at most 64 terms per sum (the first and last 32) so that |c| <= 256, the product."""
    m, n, k = shape
    generator = np.random.default_rng(seed)
    a = generator.choice([-2, -1, 1, 2], size=(m, k))
    b = generator.choice([-2, -1, 1, 2], size=(k, n))
    b[32 : max(32, k - 32)] = 0
    product = a @ b
    assert product.size == 0 or (np.abs(a) @ np.abs(b)).max() <= 256
    return a, b, product


def reals(name: str, shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(FORMATS[name])


def assert_same(actual: np.ndarray, expected: np.ndarray) -> None:
    """Equal values, NaN like NaN, and +0 like -0."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual.astype(np.float64), expected.astype(np.float64))


def all_codes(name: str) -> np.ndarray:
    width = FORMATS[name].itemsize
    return np.arange(256**width, dtype=f"u{width}").view(FORMATS[name])


# ---- NumPy ------------------------------------------------------------------------------------------------


@each_format
@each_shape
def test_numpy_equals_integer_product(name, shape):
    a, b, product = integers(shape)

    c = load("correct/numpy_tiled.py").matmul(a.astype(FORMATS[name]), b.astype(FORMATS[name]))

    assert_same(c, product.astype(OUTPUTS[name]))


def test_numpy_over_several_tiles_in_each_direction():
    a, b, product = integers((300, 290, 1100))

    c = load("correct/numpy_tiled.py").matmul(a.astype(np.float16), b.astype(np.float16))

    assert_same(c, product.astype(np.float16))


def test_numpy_int8_sums_are_int32():
    a = np.full((2, 3000), -128, np.int8)

    c = load("correct/numpy_tiled.py").matmul(a, a.T)

    assert_same(c, np.full((2, 2), 3000 * 2**14, np.int32))


def test_numpy_float64_sums_are_float64():
    a = np.array([[2.0**52, 1.0]])

    c = load("correct/numpy_tiled.py").matmul(a, np.ones((2, 1)))

    assert_same(c, np.array([[2.0**52 + 1]]))


# ---- C ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def blocked(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The shared library, built with the command in the file's first comment."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc) found")
    source = EXAMPLES / "correct" / "blocked.c"
    command = source.read_text().splitlines()[1].removeprefix(" * ")
    assert command.startswith("cc ")
    folder = tmp_path_factory.mktemp("blocked")
    command = command.replace("examples/correct/blocked.c", str(source)).split()
    subprocess.run([*command, "-std=c11", "-Wall", "-Wextra", "-Werror"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "blocked.so"))


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def padded(array: np.ndarray, columns: int, fill: float) -> np.ndarray:
    """The same values in rows that are *columns* longer, filled with *fill*."""
    rows, width = array.shape
    buffer = np.full((rows, width + columns), fill, np.float32).astype(array.dtype)
    buffer[:, :width] = array
    return buffer


def c_matmul(library: ctypes.CDLL, name: str, a: np.ndarray, b: np.ndarray, padding: int = 0) -> np.ndarray:
    """Call matmul_<name> with rows padded by NaN in a and b, and by 7 in out, which must stay."""
    (m, k), n = a.shape, b.shape[1]
    a, b = padded(a, padding, np.nan), padded(b, padding, np.nan)
    out = np.full((m, n + padding), 7, OUTPUTS[name])
    sizes = (m, n, k, k + padding, n + padding, n + padding)
    library[f"matmul_{name}"](pointer(a), pointer(b), pointer(out), *map(ctypes.c_int32, sizes))
    assert (out[:, n:].astype(np.float32) == 7).all()
    return out[:, :n]


@each_format
@each_shape
@pytest.mark.parametrize("padding", [0, 3])
def test_c_equals_integer_product(blocked, name, shape, padding):
    a, b, product = integers(shape)

    c = c_matmul(blocked, name, a.astype(FORMATS[name]), b.astype(FORMATS[name]), padding)

    assert_same(c, product.astype(OUTPUTS[name]))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn"])
def test_c_converts_every_code(blocked, name):
    codes = all_codes(name)

    c = c_matmul(blocked, name, codes[:, None], np.ones((1, 1), FORMATS[name]))

    with np.errstate(invalid="ignore"):
        assert_same(c, codes[:, None].astype(OUTPUTS[name]))


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn"])
def test_c_rounds_products_of_all_codes_to_nearest_even(blocked, name):
    """Every code times some of all magnitudes: products in the whole float range, ties among them."""
    codes = all_codes(name)
    others = codes[:: max(1, len(codes) // 61)]

    c = c_matmul(blocked, name, codes[:, None], others[None, :])

    exact_or_float32 = codes[:, None].astype(np.float32) * others[None, :].astype(np.float32)
    assert_same(c, exact_or_float32.astype(OUTPUTS[name]))


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2049.0, 2048.0),  # tie, down to even
        (2051.0, 2052.0),  # tie, up to even
        (65519.0, 65504.0),  # below the midpoint to 2**16
        (65520.0, np.inf),  # at it
        (2.0**-25, 0.0),  # half of the smallest subnormal
        (3 * 2.0**-25, 2 * 2.0**-24),
        (2.0**-14 - 2.0**-25, 2.0**-14),  # from subnormal up to normal
    ],
)
def test_c_float16_at_the_edges(blocked, value, expected):
    """The value is summed from two products, as float16 does not hold it."""
    high = np.float16(min(value, 65504.0))
    scale = 2.0**-10 if value < 1 else 1.0
    a = np.array([[high, (value - float(high)) / scale]]).astype(np.float16)
    b = np.array([[1.0], [scale]]).astype(np.float16)
    assert (a.astype(np.float64) @ b.astype(np.float64)).item() == value

    assert float(c_matmul(blocked, "float16", a, b)[0, 0]) == expected


@each_shape
@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (2, 0), (-0.5, 1), (0, 2)])
def test_c_gemm_with_alpha_and_beta(blocked, shape, alpha, beta):
    (m, n, k), padding = shape, 2
    a, b, product = integers(shape)
    c = np.full((m, n), np.nan if beta == 0 else 3, np.float32)
    expected = np.float32(alpha) * product.astype(np.float32) + (0 if beta == 0 else np.float32(beta) * c)
    c = padded(c, padding, 7)
    a = padded(a.astype(np.float32), padding, np.nan)
    b = padded(b.astype(np.float32), padding, np.nan)

    i64, f32 = ctypes.c_int64, ctypes.c_float
    status = blocked.gemm_float32_64(
        i64(m), i64(n), i64(k), f32(alpha), pointer(a), i64(k + padding), pointer(b), i64(n + padding),
        f32(beta), pointer(c), i64(n + padding),
    )  # fmt: skip

    assert status == 0
    assert_same(c[:, :n], expected)
    assert (c[:, n:] == 7).all()


# ---- Triton -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def triton_matmul():
    for package in ("torch", "triton"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    return load("correct/triton_matmul.py").matmul


def to_torch(array: np.ndarray, name: str):
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.from_numpy(array.astype(np.float32)).to(getattr(torch, name)).to(device)


@each_format
@each_shape
def test_triton_equals_integer_product(triton_matmul, name, shape):
    import torch

    a, b, product = integers(shape)

    c = triton_matmul(to_torch(a, name), to_torch(b, name))

    assert c.dtype == getattr(torch, OUTPUTS[name].name)
    assert_same(c.cpu().to(torch.float64).numpy(), product.astype(np.float64))


def test_triton_takes_transposed_operands(triton_matmul):
    a, b, product = integers((33, 34, 65))

    c = triton_matmul(to_torch(a.T.copy(), "float16").T, to_torch(b.T.copy(), "float16").T)

    assert_same(c.cpu().numpy(), product.astype(np.float16))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # infinity times a masked 0
@pytest.mark.parametrize("name", ["float16", pytest.param("bfloat16", marks=pytest.mark.slow), "float8_e4m3fn"])
def test_triton_keeps_every_code(triton_matmul, name):
    import torch

    codes = all_codes(name)[:, None]
    width = FORMATS[name].itemsize
    bits = torch.from_numpy(codes.view(f"i{width}").copy())
    one = to_torch(np.ones((1, 1)), name)

    c = triton_matmul(bits.view(one.dtype).to(one.device), one)

    with np.errstate(invalid="ignore"):
        assert_same(c.cpu().to(torch.float32).numpy(), codes.astype(np.float32))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_triton_rounds_once_to_nearest_even(triton_matmul, name):
    import torch

    a, b = reals(name, (64, 1)), reals(name, (1, 64), seed=1)

    c = triton_matmul(to_torch(a, name), to_torch(b, name))

    expected = (a.astype(np.float32) * b.astype(np.float32)).astype(FORMATS[name])
    assert_same(c.cpu().to(torch.float32).numpy(), expected.astype(np.float32))


# ---- wrong kernels ----------------------------------------------------------------------------------------


@each_format
def test_last_k_dropped_loses_exactly_the_last_product(name):
    a, b, product = integers(RAGGED)

    c = wrong("last_k_dropped")(a.astype(FORMATS[name]), b.astype(FORMATS[name]))

    assert_same(c, (product - np.outer(a[:, -1], b[-1])).astype(OUTPUTS[name]))


def test_last_k_dropped_is_right_when_k_is_a_multiple_of_8():
    a, b, product = integers((5, 37, 64))

    c = wrong("last_k_dropped")(a.astype(np.float16), b.astype(np.float16))

    assert_same(c, product.astype(np.float16))


@each_format
@pytest.mark.parametrize("k", [17, 32, 48, 67, 257], ids="k={}".format)
def test_stale_k_tile_repeats_the_tile_before_the_last(name, k):
    a, b, _ = integers((5, 37, k))
    last = (k - 1) // 16 * 16
    stale = b.copy()
    stale[last:] = b[last - 16 : last - 16 + k - last]

    c = wrong("stale_k_tile")(a.astype(FORMATS[name]), b.astype(FORMATS[name]))

    assert_same(c, (a @ stale).astype(OUTPUTS[name]))


def test_stale_k_tile_is_right_within_one_tile():
    a, b, product = integers((5, 37, 16))

    c = wrong("stale_k_tile")(a.astype(np.float16), b.astype(np.float16))

    assert_same(c, product.astype(np.float16))


@each_format
def test_fp16_accumulator_loses_a_one_between_2048_and_its_negative(name):
    a, b = np.zeros((1, 48)), np.full((48, 1), 16.0)
    a[0, :8], a[0, 32:40] = 16, -16  # 2048 in the first 16 of k, -2048 in the last
    a[0, 16], b[16] = 1, 1

    c = wrong("fp16_accumulator")(a.astype(FORMATS[name]), b.astype(FORMATS[name]))

    assert (a @ b).item() == 1
    assert_same(c, np.zeros((1, 1), OUTPUTS[name]))


@each_format
def test_fp16_accumulator_is_right_while_sums_stay_small(name):
    a, b, product = integers(RAGGED)

    c = wrong("fp16_accumulator")(a.astype(FORMATS[name]), b.astype(FORMATS[name]))

    assert_same(c, product.astype(OUTPUTS[name]))


@each_format
def test_squares_a_shows_only_off_zero_and_one(name):
    a, b, product = integers(RAGGED)
    squares = wrong("squares_a")

    c = squares(a.astype(FORMATS[name]), b.astype(FORMATS[name]))
    assert_same(c, ((a * a) @ b).astype(OUTPUTS[name]))
    assert not np.array_equal(c.astype(np.int64), product)

    binary = (a > 0).astype(np.int64)
    c = squares(binary.astype(FORMATS[name]), b.astype(FORMATS[name]))
    assert_same(c, (binary @ b).astype(OUTPUTS[name]))


@each_format
def test_unwritten_tail_leaves_the_last_columns(name):
    a, b, product = integers(RAGGED)
    out = np.full(product.shape, np.nan).astype(OUTPUTS[name])

    result = wrong("unwritten_tail")(a.astype(FORMATS[name]), b.astype(FORMATS[name]), out)

    assert result is None
    assert_same(out[:, :32], product[:, :32].astype(OUTPUTS[name]))
    assert np.isnan(out[:, 32:].astype(np.float32)).all()


@each_format
def test_cached_output_ignores_new_values_in_old_buffers(name):
    a, b, product = integers(RAGGED)
    cached = wrong("cached_output")
    a, b = a.astype(FORMATS[name]), b.astype(FORMATS[name])

    assert_same(cached(a, b), product.astype(OUTPUTS[name]))
    a[:] = 0
    assert_same(cached(a, b), product.astype(OUTPUTS[name]))
    assert_same(cached(a.copy(), b), np.zeros_like(product).astype(OUTPUTS[name]))
