"""The figures of ``docs/why.md`` are what ``examples/why.py`` prints."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "why.md").read_text(encoding="utf-8")
BLOCK = re.compile(
    r"^<!-- output of: python examples/why\.py --section (\w+) -->\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
NUMBER = re.compile(r"(?<![\w.*-])\d+(?:\.\d+)?%?(?![\w.]*\w)")
CITATION = re.compile(r"IEEE 754-2019|clause \d+")


def load_script() -> ModuleType:
    """Return ``examples/why.py`` as a module."""
    spec = importlib.util.spec_from_file_location("why", ROOT / "examples" / "why.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


why = load_script()
blocks = {name: text.splitlines() for name, text in BLOCK.findall(PAGE)}


def test_every_section_has_its_block_in_order() -> None:
    assert list(blocks) == list(why.SECTIONS)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "formats" else ()) for name in why.SECTIONS]
)
def test_block_is_what_the_section_prints(name: str) -> None:
    assert blocks[name] == why.SECTIONS[name]()


def test_rows_of_the_small_products_are_in_their_block() -> None:
    assert blocks["formats"][2] == why.small_line("U(0, 1)", signed=False)
    assert blocks["formats"][4] == why.small_line("U(-1, 1)", signed=True)


def test_main_prints_the_chosen_section_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert why.main(["--section", "bits"]) == 0
    assert capsys.readouterr().out.splitlines() == blocks["bits"]


def test_unknown_section_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        why.main(["--section", "speed"])
    assert stop.value.code == 2
    assert "speed" in capsys.readouterr().err


def test_figures_in_the_prose_are_printed_figures() -> None:
    printed = set(NUMBER.findall("\n".join(line for lines in blocks.values() for line in lines)))
    prose = CITATION.sub("", BLOCK.sub("", PAGE))
    assert set(NUMBER.findall(prose)) <= printed
