"""From a target to a kernel: what is found, under which framework, and what is refused."""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
import pytest

import zeroulp
from zeroulp.errors import KernelNotFoundError, KernelRaisedError, KernelResultError, UsageError
from zeroulp.kernels import KernelSpec, load, wrap
from zeroulp.kernels.frameworks import framework_named, framework_of
from zeroulp.report import Verdict

PROBLEM = zeroulp.Matmul(3, 4, 17, a="float32")


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Import a file with this text."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(text, name="some_kernels"):
        path = tmp_path / f"{name}.py"
        path.write_text(textwrap.dedent(text))
        spec = importlib.util.spec_from_file_location(name, path)
        found = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, found)
        spec.loader.exec_module(found)
        return found

    return write


def needs(name):
    return pytest.importorskip(name, reason=f"{name} is not installed")


def through_numpy(a, b):
    return np.matmul(a, b)


def plain(a, b):
    return a @ b


class Holder:
    """A class whose attributes are kernels."""

    @staticmethod
    def matmul(a, b):
        return a @ b

    class Inner:
        """Deeper."""

        @staticmethod
        def matmul(a, b):
            return a @ b

    def method(self, a, b):
        return a @ b


def decorate(function):
    @functools.wraps(function)
    def kernel(a, b):
        return function(a, b)

    return kernel


@decorate
def decorated(a, b):
    return a @ b


TABLE = 5


@pytest.mark.parametrize("function", [
    through_numpy, plain, decorated, np.matmul, np.dot, Holder.matmul, Holder().method,
    functools.partial(np.einsum, "ik,kj->ij"), np.vectorize(plain, signature="(m,k),(k,n)->(m,n)"),
], ids=lambda function: getattr(function, "__name__", type(function).__name__))
def test_numpy_is_what_a_kernel_eats_unless_it_uses_torch(function):
    assert framework_of(function) == "numpy"


BOTH = "import numpy as np\nimport torch\n"


@pytest.mark.parametrize("text", [
    "import torch\ndef matmul(a, b): return torch.matmul(a, b)",
    "import torch\ndef matmul(a, b): return a @ b",
    "def matmul(a, b):\n    import torch\n    return torch.matmul(a, b)",
    "import numpy as np\ndef matmul(a, b):\n    import torch.nn.functional as F\n    return F.linear(a, b.T)",
    "def matmul(a, b):\n    from torch import matmul\n    return matmul(a, b)",
    "from torch import matmul as product\nimport numpy as np\ndef matmul(a, b): return product(a, b)",
    BOTH + "def matmul(a, b): return torch.matmul(a, b)",
    BOTH + "def matmul(a, b):\n    def inner(): return torch.matmul(a, b)\n    return inner()",
    BOTH + "import functools\nmatmul = functools.partial(lambda scale, a, b: torch.matmul(a, b), 1)",
    "import numpy as np\ndef make():\n    import torch\n    return lambda a, b: torch.matmul(a, b)\nmatmul = make()",
    "import torch\nclass Kernel:\n    def __call__(self, a, b): return torch.matmul(a, b)\nmatmul = Kernel()",
    "import torch\nclass Kernel(torch.nn.Module):\n    def forward(self, a, b): return a @ b\nmatmul = Kernel()",
    "import torch\nmatmul = torch.matmul",
])
def test_torch_is_what_a_kernel_eats_that_uses_it(module, text):
    needs("torch")
    function = module(text).matmul
    assert framework_of(function) == "torch"
    assert zeroulp.check(function, PROBLEM, trials=1).verdict is Verdict.CORRECT


@pytest.mark.parametrize("text", [
    BOTH + "def matmul(a, b): return np.matmul(a, b)",
    BOTH + "def matmul(a, b):\n    import numpy\n    return numpy.matmul(a, b)",
])
def test_what_a_function_uses_counts_before_what_its_module_does(module, text):
    needs("torch")
    assert framework_of(module(text).matmul) == "numpy"


@pytest.mark.parametrize("interpreted", ["0", "1"])
def test_triton_kernels_and_their_launchers_eat_torch(tmp_path, interpreted):
    """In a process of its own, since importing Triton decides whether its kernels are compiled or interpreted."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("triton is not installed")
    (tmp_path / "of_triton.py").write_text(textwrap.dedent("""
        import numpy as np
        import triton
        import triton.language as tl
        from zeroulp.kernels.frameworks import framework_of
        @triton.jit
        def kernel(a, b, out, n: tl.constexpr):
            tl.store(out, 0)
        def launch(a, b):
            return kernel[(1,)](a, b, a, 1)
        print(type(kernel).__name__, framework_of(kernel), framework_of(launch))
    """))
    ran = subprocess.run([sys.executable, tmp_path / "of_triton.py"], check=True, timeout=60, capture_output=True,
                         text=True, env={**os.environ, "TRITON_INTERPRET": interpreted})
    wrapper = "InterpretedFunction" if interpreted == "1" else "JITFunction"
    assert ran.stdout.split() == [wrapper, "torch", "torch"]


def test_looking_at_a_kernel_imports_no_framework():
    text = "import sys, zeroulp; zeroulp.check(lambda a, b: a @ b, zeroulp.Matmul(2, 2, 2, a='float32')); " \
           "sys.exit(any(name in sys.modules for name in ('torch', 'triton', 'jax', 'cupy')))"
    assert subprocess.run([sys.executable, "-c", text], check=False, timeout=60).returncode == 0


def test_an_unknown_framework_is_refused():
    with pytest.raises(UsageError, match="framework 'cupy' is not supported"):
        framework_named("cupy")


@pytest.mark.parametrize(("text", "eats"), [
    ("import jax.numpy as jnp\ndef matmul(a, b): return jnp.matmul(a, b)", "jax"),
    ("import jax\nmatmul = jax.jit(lambda a, b: a @ b)", "jax"),
    ("import jax, numpy as np\nmatmul = jax.jit(lambda a, b: jax.numpy.matmul(a, b))", "jax"),
    ("import numpy as np\nimport jax.numpy as jnp\ndef matmul(a, b): return np.asarray(jnp.matmul(a, b))", "numpy"),
    ("import numpy as np\nimport jax.numpy as jnp\ndef matmul(a, b): return np.matmul(a, b)", "numpy"),
])
def test_jax_is_what_a_kernel_eats_that_uses_it_without_numpy(module, text, eats):
    needs("jax")
    function = module(text).matmul
    assert framework_of(function) == eats
    assert zeroulp.check(function, PROBLEM, trials=1).verdict is Verdict.CORRECT


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float8_e4m3fn", "int8", "int32", "float4_e2m1fn"])
def test_arrays_cross_to_jax_as_copies(name):
    needs("jax")
    array = np.arange(12).reshape(3, 4)[:, ::2].astype(getattr(ml_dtypes, name, name))
    jax = framework_named("jax")
    copied = jax.to(array)
    array[...] = 0
    back = jax.back(copied)
    assert (back.dtype, back.shape, back.astype(np.float32).max() > 0) == (array.dtype, array.shape, True)


def test_what_jax_cannot_hold_is_refused():
    jax = needs("jax")
    if not jax.config.jax_enable_x64:
        with pytest.raises(UsageError, match="JAX makes float32 of float64"):
            zeroulp.check(plain, zeroulp.Matmul(3, 4, 5, a="float64"), framework="jax")
    with pytest.raises(UsageError, match="JAX has no dtype for float6_e2m3fn"):
        zeroulp.check(plain, zeroulp.Matmul(3, 4, 5, a="e2m3"), framework="jax")
    with pytest.raises(UsageError, match="destination passing to a kernel of jax"):
        zeroulp.check(plain, PROBLEM, framework="jax", destination_passing=True)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2",
                                  "float8_e4m3fnuz", "float8_e5m2fnuz", "int8", "int32"])
def test_arrays_cross_to_torch_and_back_without_a_copy(name):
    needs("torch")
    array = np.arange(12).reshape(3, 4)[:, ::2].astype(getattr(ml_dtypes, name, name))
    torch = framework_named("torch")
    tensor = torch.to(array)
    back = torch.back(tensor)
    assert (str(tensor.dtype), tuple(tensor.shape)) == (f"torch.{name}", (3, 2))
    assert (back.dtype, back.shape, back.strides) == (array.dtype, array.shape, array.strides)
    assert np.shares_memory(array, back)


def test_dtypes_that_torch_lacks_are_refused():
    needs("torch")
    with pytest.raises(UsageError, match="PyTorch has no dtype for float4_e2m1fn"):
        zeroulp.check(plain, zeroulp.Matmul(3, 4, 5, a="fp4"), framework="torch")


@pytest.mark.parametrize(("result", "said"), [
    ("a.to(torch.float32).to_sparse()", "which is no plain array"),
    ("(a @ b).to('meta')", "the kernel returned a tensor on meta"),
    ("(a @ b).numpy()", "returned a numpy.ndarray, not an array of torch"),
    ("[a @ b]", "returned a builtins.list, not an array of torch"),
])
def test_results_that_are_no_tensors_in_memory_are_broken(module, result, said):
    needs("torch")
    function = module(f"import torch\ndef matmul(a, b): return {result}").matmul
    report = zeroulp.check(function, PROBLEM)
    assert report.verdict is Verdict.BROKEN
    assert said in report.reasons[0][0]


def test_a_result_that_requires_grad_is_taken(module):
    needs("torch")
    function = module("import torch\ndef matmul(a, b): return (a @ b).requires_grad_()").matmul
    assert zeroulp.check(function, PROBLEM, trials=1).verdict is Verdict.CORRECT


@pytest.mark.parametrize("name", ["through_numpy", "plain", "Holder.matmul", "Holder.Inner.matmul"])
def test_targets_name_functions_and_attributes_of_classes(name):
    for place in (__file__, __name__):
        kernel = load(KernelSpec(f"{place}:{name}"), PROBLEM)
        a, b = np.eye(3, dtype=np.float32), np.ones((3, 4), np.float32)
        assert np.array_equal(kernel([a, b], None), b)


@pytest.mark.parametrize("target", ["numpy:matmul", "numpy.linalg:multi_dot"])
def test_targets_name_functions_of_installed_modules(target):
    assert callable(load(KernelSpec(target), PROBLEM))


@pytest.mark.parametrize(("target", "message"), [
    (f"{__file__}:plian", "has no function 'plian'\n  do     did you mean plain"),
    (f"{__file__}:Holder.gemm", "has no function 'Holder.gemm'"),
    (f"{__file__}:Missing.matmul", "has no function 'Missing.matmul'"),
    (f"{__file__}:TABLE", "is a int, not a function"),
    (f"{__file__}x:plain", "no module"),
    ("no/such/file.py:plain", "no file no/such/file.py"),
    ("no_such_package.module:plain", "no module 'no_such_package.module'"),
    ("zeroulp.no_such_module:plain", "zeroulp can be imported, zeroulp.no_such_module is not in it"),
    ("..:plain", "no module '..'"),
    ("plain", "names no kernel"),
])
def test_targets_that_name_nothing_are_refused(target, message):
    with pytest.raises(UsageError) as caught:
        load(KernelSpec(target), PROBLEM)
    assert message in str(caught.value)


def test_a_directory_is_no_kernel_file(tmp_path):
    (tmp_path / "kernel.py").mkdir()
    with pytest.raises(KernelNotFoundError, match="no file"):
        load(KernelSpec(f"{tmp_path / 'kernel.py'}:matmul"), PROBLEM)


@pytest.mark.parametrize(("text", "message"), [
    ("import no_such_module", "raised ModuleNotFoundError: No module named 'no_such_module'"),
    ("def matmul(a, b:", "raised SyntaxError"),
    ("raise SystemExit(0)", "raised SystemExit: 0"),
])
def test_a_file_that_does_not_import_is_the_kernels_fault(tmp_path, text, message):
    (tmp_path / "kernel.py").write_text(text)
    with pytest.raises(KernelRaisedError, match=message) as caught:
        load(KernelSpec(f"{tmp_path / 'kernel.py'}:matmul"), PROBLEM)
    assert "kernel.py" in caught.value.log


@pytest.mark.parametrize(("text", "message"), [
    ("import no_such_module", "raised ModuleNotFoundError: No module named 'no_such_module'"),
    ("raise ImportError('built for another machine')", "raised ImportError: built for another machine"),
])
def test_a_package_that_does_not_import_is_the_kernels_fault(tmp_path, monkeypatch, text, message):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "a_broken_package").mkdir()
    (tmp_path / "a_broken_package" / "__init__.py").write_text(text)
    (tmp_path / "a_broken_package" / "kernels.py").write_text("def matmul(a, b): return a @ b")
    with pytest.raises(KernelRaisedError, match=message):
        load(KernelSpec("a_broken_package.kernels:matmul"), PROBLEM)


def test_alpha_and_beta_go_to_parameters_of_these_names():
    seen = []

    def kernel(a, b, c, *, alpha=None, beta=None):
        seen.append((alpha, beta))
        return c

    problem = PROBLEM.replace(alpha=2, beta=0.5)
    arrays = [np.zeros(operand.shape, np.float32) for operand in problem.operands]
    wrap(kernel, KernelSpec("kernel"), problem)(arrays, None)
    wrap(lambda a, b, c: c, KernelSpec("kernel"), problem)(arrays, None)
    assert seen == [(2.0, 0.5)]


def test_under_destination_passing_the_last_argument_is_the_result():
    def kernel(a, b, out):
        out[...] = a @ b
        return "ignored"

    a, b, out = np.eye(3), np.ones((3, 4)), np.empty((3, 4))
    assert wrap(kernel, KernelSpec("kernel", destination_passing=True), PROBLEM)([a, b], out) is out
    assert (out == 1).all()
    with pytest.raises(KernelResultError, match=r"returned None(.|\n)*destination passing"):
        wrap(lambda a, b: None, KernelSpec("kernel"), PROBLEM)([a, b], None)


@pytest.mark.parametrize("function", [through_numpy, plain, decorated, Holder.matmul, Holder.Inner.matmul])
def test_a_function_of_a_file_is_found_again_by_a_worker(function):
    report = zeroulp.check(function, PROBLEM, isolation="process", trials=1)
    assert report.verdict is Verdict.CORRECT, report
    assert report.kernel.target == f"{__file__}:{function.__qualname__}"


def closure():
    def kernel(a, b):
        return a @ b

    return kernel


@pytest.mark.parametrize(("function", "name"), [
    (lambda a, b: a @ b, "<lambda>"), (closure(), "closure.<locals>.kernel"), (Holder().method, "Holder.method"),
    (functools.partial(plain), "partial"), (functools.wraps(plain)(lambda a, b: a @ b), "plain"),
])
def test_a_function_that_a_worker_cannot_find_is_refused_before_it_starts(function, name):
    with pytest.raises(UsageError) as caught:
        zeroulp.check(function, PROBLEM, isolation="process")
    assert f"the function {name} cannot be handed to a worker process" in str(caught.value)
    assert "top of a file" in caught.value.why
    assert "isolation" in caught.value.do
    assert zeroulp.check(function, PROBLEM, trials=1).verdict is Verdict.CORRECT


def test_no_function_and_no_problem_are_refused():
    with pytest.raises(UsageError, match="the kernel is a int"):
        zeroulp.check(5, PROBLEM)
    with pytest.raises(UsageError, match="the problem is a tuple"):
        zeroulp.check(plain, (3, 4, 17))
