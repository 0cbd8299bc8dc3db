"""
A campaign: correct kernels of every kind, drawn at random, none of which may be accused.

Every accusation is printed with what is needed to see it again, and makes the exit status 1. So
that the campaign can fail, some of the kernels are also run with a fault, which must be found.
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from common import report

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.campaign import FAMILIES, Case, Dice, draw_case

from zeroulp.cli.console import table
from zeroulp.draw import fresh_seed
from zeroulp.report import Verdict

EVERY = 25  # cases to one that is also run with a fault
SURE = ("drops a product", "adds a product twice", "forgets a sign")  # faults that no rounding hides
ESCAPES = 1e-6  # the largest escape probability of a check that a fault is tried on
VERDICTS = [verdict.value for verdict in Verdict]
_TELL_SECONDS = 20


@dataclass
class Tally:
    """What was counted."""

    verdicts: collections.Counter = field(default_factory=collections.Counter)  # (kind of row, row, verdict)
    faults: collections.Counter = field(default_factory=collections.Counter)  # (family, caught)
    accusations: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    calls: int = 0
    outputs: int = 0

    @property
    def checks(self):
        """Checks of correct kernels."""
        return sum(count for (kind, _, _), count in self.verdicts.items() if kind == "family")

    def add(self, case, found, number):
        """One check of a correct kernel. Whether it was accused."""
        p = case.problem
        clause = p.accumulate + (f", {p.accumulator_precision} bits" if p.accumulator_precision else "")
        operands = p.a if p.a == p.b else "mixed"
        for kind, row in (("family", case.family), ("operands", operands), ("output", p.out), ("sums", clause)):
            self.verdicts[kind, row, found.verdict.value] += 1
        self.calls += found.calls
        self.outputs += found.calls * p.output.size
        accused = found.verdict in (Verdict.INCORRECT, Verdict.BROKEN)
        if accused:
            self.accusations.append(f"ACCUSED in case {number}: {case.family}\n\n{case.reproduction()}\n\n{found}")
        return accused

    def add_faulty(self, case, found, number):
        """One check of the same kernel with a fault."""
        caught = found.verdict is Verdict.INCORRECT
        self.faults[case.family, caught] += 1
        if not caught:
            self.missed.append(f"case {number}: {case.family}, {case.kernel.fault}: {found.verdict.value}\n")

    def rows(self, kind):
        """A row for each family, format or clause: how many checks ended how."""
        names = dict.fromkeys(FAMILIES) if kind == "family" else sorted({r for k, r, _ in self.verdicts if k == kind})
        rows = [[name, *self._counts(kind, name)] for name in names]
        if kind == "family":
            rows = [[*row, f"{self.faults[row[0], True]} of {self._faulty(row[0])}"] for row in rows]
        return rows

    def _counts(self, kind, name):
        counts = {verdict: self.verdicts[kind, name, verdict] for verdict in VERDICTS}
        return [str(n) for n in (sum(counts.values()), counts["INCORRECT"], counts["BROKEN"], counts["INCONCLUSIVE"])]

    def _faulty(self, family):
        return self.faults[family, True] + self.faults[family, False]

    @property
    def blind(self):
        """Families in which no fault was found, though some were tried."""
        return [name for name in FAMILIES if self._faulty(name) and not self.faults[name, True]]


def case_of(seed, number, family=None) -> Case:
    """Case *number* of the campaign with this seed."""
    names = list(FAMILIES)
    dice = Dice(f"{seed} {number}")
    while True:  # choices that contradict each other are made again
        case = draw_case(dice, family or names[number % len(names)])
        if case is not None:
            return case


def with_a_fault(case, found, number) -> Case | None:
    """The same case with a fault, where the report on the right kernel says that hardly any escapes."""
    if found.verdict is not Verdict.CORRECT or found.escape_probability > ESCAPES or not case.problem.alpha:
        return None
    if case.problem.k < 2 or not case.problem.output.size:
        return None
    return case.faulty(SURE[number % len(SURE)])


def run(seed, numbers, minutes, family=None, tell=print) -> Tally:
    """Cases by their numbers, until *minutes* have passed."""
    tally, started, told = Tally(), time.monotonic(), time.monotonic()
    for done, number in enumerate(numbers):
        case = case_of(seed, number, family)
        found = case.check()
        if tally.add(case, found, number):
            tell(tally.accusations[-1])
        faulty = with_a_fault(case, found, number) if number // len(FAMILIES) % EVERY == 0 else None
        if faulty is not None:
            tally.add_faulty(faulty, faulty.check(), number)
        spent = time.monotonic() - started
        if spent > 60 * minutes:
            break
        if time.monotonic() - told > _TELL_SECONDS:
            told = time.monotonic()
            left = min(spent / (done + 1) * (len(numbers) - done - 1), 60 * minutes - spent)
            accused = len(tally.accusations)
            tell(f"{done + 1:,} of {len(numbers):,} checks, {accused} accused, about {left / 60:.1f} minutes left")
    return tally


def show(tally, seed) -> None:
    """The tables."""
    head = ["checks", "accused", "broken", "inconclusive"]
    total = [str(sum(int(row[i]) for row in tally.rows("family"))) for i in range(1, 5)]
    caught = sum(count for (_, found), count in tally.faults.items() if found)
    rows = [*tally.rows("family"), ["all", *total, f"{caught} of {sum(tally.faults.values())}"]]
    notes = [
        f"seed {seed:#x}; {tally.calls:,} calls of kernels, {tally.outputs:,} outputs compared",
        "inconclusive: correct kernels of problems for which there is no certificate, or too few positions compared.",
        "wrong, caught: the same kernels with a product dropped or added twice, or signs lost. They show that the",
        "campaign can fail; they are not among the checks.\n",
        *(table([kind, *head], tally.rows(kind)) for kind in ("operands", "output", "sums")),
        *(["wrong kernels not caught\n", *tally.missed] if tally.missed else []),
        *(f"no wrong kernel was caught in the family {name}" for name in tally.blind),
    ]
    report("Correct kernels, and how many were accused", ["family", *head, "wrong, caught"], rows, "\n".join(notes))


def main(argv=None) -> int:
    """Run, print, and say by the exit status whether anyone was accused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checks", type=int, default=20_000, help="how many (default 20,000)")
    parser.add_argument("--seed", type=lambda text: int(text, 0), help="default: a fresh one, printed")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so long, if not done before")
    parser.add_argument("--family", choices=list(FAMILIES), help="kernels of one family alone")
    parser.add_argument("--case", type=int, metavar="NUMBER", help="one case alone, by the number printed with it")
    arguments = parser.parse_args(argv)
    if arguments.checks < 1 or not arguments.minutes > 0:
        parser.error("nothing to do")
    seed = fresh_seed() if arguments.seed is None else arguments.seed
    numbers = range(arguments.checks) if arguments.case is None else [arguments.case]
    tally = run(seed, numbers, arguments.minutes, arguments.family, lambda text: print(text, file=sys.stderr))
    show(tally, seed)
    for text in tally.accusations:
        print(f"{text}\nor: python benchmarks/soundness.py --seed {seed:#x} --case {text.split()[3].rstrip(':')}\n")
    return 1 if tally.accusations or tally.blind else 0


if __name__ == "__main__":
    raise SystemExit(main())
