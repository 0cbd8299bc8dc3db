"""A check of a grid of shapes: what was asked for, and one line of result for each shape."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeroulp.draw import check_seed
from zeroulp.kernels import KernelSpec
from zeroulp.problem import Matmul
from zeroulp.report.codec import SCHEMA_VERSION
from zeroulp.report.model import Verdict
from zeroulp.sizes import Sizes
from zeroulp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

WORST_FIRST = (Verdict.INCORRECT, Verdict.BROKEN, Verdict.INCONCLUSIVE, Verdict.CORRECT)


@dataclass(frozen=True)
class GridHeader:
    """
    What was asked for: a grid is resumed by a request that says the same.

    Args:
        kernel: Which kernel, and how it is called.
        kernel_sha256: Of the file that holds it; empty where it was named by a module.
        problem: Everything but the sizes, which are those of the first shape.
        seed: Of the checks of all shapes.
        isolation: ``"none"`` or ``"process"``.
        options: The plan's options, without those left out.
        shapes: All of them, in order.
        jobs: How many were checked at once; says nothing about what was asked for.
    """

    kernel: KernelSpec
    kernel_sha256: str
    problem: Matmul
    seed: int
    isolation: str
    options: dict[str, Any]
    shapes: tuple[Sizes, ...]
    jobs: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for the first line of a file."""
        problem = self.problem.to_dict()
        for size in Sizes._fields:
            del problem[size]
        return {
            "schema_version": SCHEMA_VERSION,
            "zeroulp_version": __version__,
            "kind": "grid",
            "kernel": self.kernel.to_dict(),
            "kernel_sha256": self.kernel_sha256,
            "problem": problem,
            "seed": f"0x{self.seed:016x}",
            "isolation": self.isolation,
            "options": dict(self.options),
            "jobs": self.jobs,
            "shapes": [list(shape) for shape in self.shapes],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> GridHeader:
        """The header that `to_dict` described. Raises KeyError, TypeError, ValueError or UsageError if it is none."""
        shapes = tuple(Sizes(*shape) for shape in data["shapes"])
        return cls(
            kernel=KernelSpec.from_dict(data["kernel"]),
            kernel_sha256=str(data["kernel_sha256"]),
            problem=Matmul.from_dict({**data["problem"], **shapes[0]._asdict()}),
            seed=check_seed(str(data["seed"])),
            isolation=str(data["isolation"]),
            options=dict(data["options"]),
            shapes=shapes,
            jobs=int(data.get("jobs", 1)),
        )

    def differences(self, there: dict[str, Any]) -> list[str]:
        """In what this differs from the header in a file, in words."""
        here = json.loads(json.dumps({**self.to_dict(), "jobs": there.get("jobs")}))
        if here["shapes"] != there.get("shapes"):
            mine, theirs = _shapes(here), _shapes(there)
            here["shapes"], there = mine + (", others between" if mine == theirs else ""), {**there, "shapes": theirs}
        if here["kernel"] != there.get("kernel"):
            here["kernel_sha256"] = there.get("kernel_sha256")  # another kernel has another file
        names = {"kernel.target": "kernel", "zeroulp_version": "zeroulp"}
        found = []
        for path, mine, theirs in _unlike(here, there, ""):
            if path == "kernel_sha256":
                found.append("the kernel's file has changed")
            else:
                found.append(f"{names.get(path, path)}: {_said(theirs)}, now {_said(mine)}")
        return found


def _unlike(here: dict[str, Any], there: dict[str, Any], path: str) -> Iterator[tuple[str, Any, Any]]:
    for name in dict.fromkeys((*here, *there)):
        mine, theirs = here.get(name), there.get(name)
        if isinstance(mine, dict) and isinstance(theirs, dict):
            yield from _unlike(mine, theirs, f"{path}{name}.")
        elif mine != theirs:
            yield f"{path}{name}", mine, theirs


def _said(value: Any) -> str:
    return "not given" if value is None else str(value)


def _shapes(header: dict[str, Any]) -> str:
    shapes = header.get("shapes") or [[]]
    return f"{len(shapes)} from {'x'.join(map(str, shapes[0]))} to {'x'.join(map(str, shapes[-1]))}"


@dataclass(frozen=True)
class ShapeResult:
    """
    What the check of one shape came to.

    Args:
        sizes: The shape.
        verdict: Its verdict.
        sentence: What is wrong there, or why nothing was decided; empty if it is CORRECT.
        calls: How often the kernel was called.
        escape_probability: Bound on the chance that a bilinear fault passed; 1.0 where none is claimed.
        kernel_seconds: Wall time of the calls.
        check_seconds: Wall time of all of it.
    """

    sizes: Sizes
    verdict: Verdict
    sentence: str
    calls: int
    escape_probability: float
    kernel_seconds: float
    check_seconds: float

    @classmethod
    def of(cls, data: dict[str, Any]) -> ShapeResult:
        """That of a report as plain data. Raises KeyError, TypeError, ValueError or IndexError if it is none."""
        problem, verdict = data["problem"], Verdict(data["verdict"])
        sentence = ""
        if verdict is Verdict.INCORRECT:
            sentence = data["findings"][0]["sentence"]
        elif verdict is not Verdict.CORRECT:
            sentence = data["reasons"][0]["reason"].rstrip(".") + "."
        return cls(
            sizes=Sizes(int(problem["m"]), int(problem["n"]), int(problem["k"])),
            verdict=verdict,
            sentence=sentence,
            calls=int(data["calls"]),
            escape_probability=float(data["escape_probability"]),
            kernel_seconds=float(data["seconds"]["kernel"]),
            check_seconds=float(data["seconds"]["check"]),
        )


@dataclass(frozen=True)
class GridReport:
    """
    A check of a grid of shapes.

    Args:
        header: What was asked for.
        results: One for each shape that was checked, in the order of the request.
        resumed: How many of them were read from the file of an earlier run.
    """

    header: GridHeader
    results: tuple[ShapeResult, ...]
    resumed: int = 0

    @property
    def planned(self) -> int:
        """How many shapes there were to check; more than were checked where it ended at the first fault."""
        return len(self.header.shapes)

    @property
    def verdict(self) -> Verdict:
        """INCORRECT if one shape is; else BROKEN if one is; else INCONCLUSIVE if one is; else CORRECT."""
        found = {result.verdict for result in self.results}
        return next(verdict for verdict in WORST_FIRST if verdict in found)

    @property
    def telling(self) -> ShapeResult:
        """The first shape with the verdict of the whole."""
        return next(result for result in self.results if result.verdict is self.verdict)

    @property
    def problem(self) -> Matmul:
        """The problem, with the sizes of the first shape."""
        return self.header.problem

    @property
    def seed(self) -> int:
        """The seed of every one of the checks."""
        return self.header.seed

    @property
    def calls(self) -> int:
        """How often the kernel was called, for all shapes together."""
        return sum(result.calls for result in self.results)

    def __str__(self) -> str:
        from zeroulp.report.grid_text import render_grid_text  # noqa: PLC0415  (as in `Report`)

        return render_grid_text(self)
