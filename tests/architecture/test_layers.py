"""The tree is what the documents say it is."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import zeroulp

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "zeroulp"


def python_files():
    return sorted(SOURCE.rglob("*.py"))


def test_each_layer_imports_only_the_layers_below_it():
    lint = pytest.importorskip("importlinter.cli", reason="import-linter is not installed")
    assert lint.lint_imports(config_filename=str(ROOT / "pyproject.toml"), cache_dir=None) == 0


def test_the_layer_test_can_fail(tmp_path):
    """A contract turned upside down is broken."""
    lint = pytest.importorskip("importlinter.cli", reason="import-linter is not installed")
    config = tmp_path / "pyproject.toml"
    config.write_text(
        '[tool.importlinter]\nroot_packages = ["zeroulp"]\n[[tool.importlinter.contracts]]\n'
        'name = "upside down"\ntype = "layers"\nlayers = ["zeroulp.errors", "zeroulp.cli"]\n'
    )
    assert lint.lint_imports(config_filename=str(config), cache_dir=None) == 1


def test_the_contract_names_every_module():
    text = (ROOT / "pyproject.toml").read_text()
    layers = set(re.findall(r'"zeroulp\.(\w+)"', text))
    modules = {p.stem for p in SOURCE.glob("*.py")} | {p.name for p in SOURCE.iterdir() if (p / "__init__.py").exists()}
    assert modules - layers == {"__init__", "__main__", "version"}
    assert layers <= modules


def test_the_architecture_page_lists_the_layers_in_order():
    pyproject = (ROOT / "pyproject.toml").read_text()
    layers = [name for name in re.findall(r'^  "zeroulp\.(\w+)",$', pyproject, re.M)][::-1]
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert re.findall(r"^\| `(\w+)/?` \|", page, re.M) == layers


LIST_MODULES = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"


def third_party_modules(code):
    """What a fresh interpreter has imported after *code*, beyond the standard library and its own start."""
    run = subprocess.run([sys.executable, "-c", f"{code}; {LIST_MODULES}"], capture_output=True, text=True, check=True,
                         cwd=ROOT, env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""})
    return {name for name in run.stdout.split() if name not in sys.stdlib_module_names and not name.startswith("_")}


def test_importing_the_library_imports_numpy_and_ml_dtypes_only():
    assert third_party_modules("import zeroulp") - third_party_modules("pass") == {"numpy", "ml_dtypes", "zeroulp"}


def test_the_import_test_can_fail():
    assert "hypothesis" in third_party_modules("import zeroulp, hypothesis")


def test_only_the_command_line_prints():
    for path in python_files():
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        prints = [node for node in calls if isinstance(node.func, ast.Name) and node.func.id == "print"]
        assert not prints or "cli" in path.parts, path


def test_frameworks_are_named_in_one_file_only():
    """No file imports an array framework, but the kernels that are written in one: nobody imports that file by name."""
    for path in python_files():
        if path.name == "triton_kernels.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.partition(".")[0] for name in names} & {"torch", "jax", "cupy", "triton"}, path


def test_every_file_is_short_and_says_what_it_is():
    for path in python_files():
        text = path.read_text()
        assert ast.get_docstring(ast.parse(text)), path
        assert text.count("\n") < 400, path


def test_every_command_is_in_the_readme():
    from zeroulp.cli.main import build_parser

    commands = next(a for a in build_parser()._actions if a.dest == "==SUPPRESS==" or hasattr(a, "choices") and a.choices)
    readme = (ROOT / "README.md").read_text()
    for name in commands.choices:
        assert f"zeroulp {name}" in readme


def test_names_in_the_documents_exist():
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]
    found = {name for page in pages for name in re.findall(r"\bzeroulp\.([A-Za-z_]\w*)", page.read_text())}
    assert {"check", "Matmul"} <= found
    for name in found:
        importlib.import_module("zeroulp" if hasattr(zeroulp, name) else f"zeroulp.{name}")


def test_files_in_the_readme_exist():
    words = re.findall(r"[`\s|]((?:src|docs|tests|benchmarks|examples)/[\w./-]*\w)", (ROOT / "README.md").read_text())
    assert len(words) > 8
    for word in words:
        assert (ROOT / word).exists(), word


def test_links_in_the_documents_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md"), ROOT / "examples" / "README.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), (page, target)
