"""How many faulty kernels of the zoo are caught, and how many correct ones accused: zeroulp, and other tools' rules."""

from __future__ import annotations

import argparse
import collections
import json
import sys
from pathlib import Path

from common import report

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.zoo import KINDS, TABLE, Entry

import zeroulp
from zeroulp.cli.console import Progress, table
from zeroulp.kernels import KernelSpec
from zeroulp.report import Verdict
from zeroulp.rules import RULES, run_rules

DEFAULT, SUPPLIED, BINARY = "zeroulp", "with needs", "binary"
HEADS = {
    "torch.allclose defaults": "torch.allclose",
    "FlashInfer-Bench": "FlashInfer",
    "GPU MODE matmul": "GPU MODE",
    "DeepGEMM similarity": "DeepGEMM",
    "0/1 exact match": "0/1 exact",
}


def judge(entry: Entry, seed: int) -> tuple[dict[str, bool], list[str], list[str]]:
    """Who says that the kernel is wrong; what zeroulp calls it; checks that came to neither answer."""
    problem = zeroulp.Matmul(**entry.problem)
    says: dict[str, bool] = {}
    undecided: list[str] = []

    def ask(who: str, asked: zeroulp.Matmul, **options: object) -> zeroulp.Report:
        found = zeroulp.check(entry.make(), asked, seed=seed, **entry.options, **options)
        says[who] = found.verdict is Verdict.INCORRECT
        if found.verdict not in (Verdict.CORRECT, Verdict.INCORRECT):
            undecided.append(f"{who}: {found.verdict.value}")
        return found

    named = ask(DEFAULT, problem)
    says[SUPPLIED] = says[DEFAULT]
    if entry.changes or entry.extra:
        named = ask(SUPPLIED, problem.replace(**entry.changes), **entry.extra)
    ask(BINARY, problem, probes=["binary"], trials=5)
    spec = KernelSpec(entry.name, destination_passing=bool(entry.options.get("destination_passing")))
    for rule in RULES:  # each meets a fresh kernel
        result = run_rules(spec, problem, function=entry.make(), seed=seed, isolation="none", rules=[rule])[0]
        says[rule.name] = result.accepted is not True
    return says, [finding.kind for finding in named.findings], undecided


def measure(entries: list[Entry], seeds: int) -> list[dict[str, object]]:
    """All entries over all seeds, as plain data."""
    measured = []
    with Progress("detection") as progress:
        for done, entry in enumerate(entries):
            progress(done, len(entries), entry.name)
            runs = [judge(entry, seed) for seed in range(seeds)]
            measured.append(
                {
                    "name": entry.name,
                    "kind": entry.kind,
                    "expected": list(entry.finding),
                    "needs": list(entry.needs),
                    "sentence": entry.sentence,
                    "wrong": {who: [says[who] for says, _, _ in runs] for who in runs[0][0]},
                    "findings": [kinds for _, kinds, _ in runs],
                    "undecided": [undecided for _, _, undecided in runs],
                }
            )
    return measured


def rows_by_kind(measured: list[dict], tools: list[str]) -> list[list[str]]:
    """Faults caught in every seed, by kind; correct kernels accused in any."""
    rows = []
    for kind in [*KINDS, "all"]:
        faults = [m for m in measured if m["kind"] and kind in (m["kind"], "all")]
        caught = [str(sum(all(m["wrong"][tool]) for m in faults)) for tool in tools]
        if faults:
            rows.append([kind, str(len(faults)), *caught])
    right = [m for m in measured if not m["kind"]]
    accused = [str(sum(any(m["wrong"][tool]) for m in right)) for tool in tools]
    return [*rows, ["correct, accused", str(len(right)), *accused]]


def missed(measured: list[dict]) -> str:
    """Faults that zeroulp does not catch in every seed."""
    rows = []
    for m in measured:
        caught = sum(m["wrong"][SUPPLIED])
        if m["kind"] and caught < len(m["wrong"][SUPPLIED]):
            seeds = f"{caught} of {len(m['findings'])}"
            rows.append([m["name"], m["kind"], ", ".join(m["needs"]), seeds, m["sentence"]])
    return "missed by zeroulp\n\n" + table(["fault", "kind", "needs", "seeds caught", "what goes wrong"], rows)


def misnamed(measured: list[dict]) -> str:
    """Findings of another kind than the expected ones."""
    rows = []
    for m in measured:
        first = collections.Counter(kinds[0] for kinds in m["findings"] if kinds)
        other = {kind: count for kind, count in first.items() if kind not in m["expected"]}
        if m["kind"] and other:
            got = ", ".join(f"{kind} ({count})" for kind, count in other.items())
            rows.append([m["name"], m["kind"], " or ".join(m["expected"]), got])
    return "findings of another kind than expected\n\n" + table(["fault", "kind", "expected", "found (seeds)"], rows)


def undecided(measured: list[dict]) -> str:
    """Checks that ended neither CORRECT nor INCORRECT."""
    rows = [[m["name"], text] for m in measured for text in sorted({text for run in m["undecided"] for text in run})]
    return "neither correct nor incorrect\n\n" + table(["kernel", "verdict"], rows) if rows else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds (default 5)")
    parser.add_argument("--json", metavar="FILE", help="write all measurements there")
    parser.add_argument("--only", metavar="TEXT", default="", help="entries whose name or kind contains this text")
    arguments = parser.parse_args()
    skipped = [f"{e.name}: {e.available()}" for e in TABLE.values() if e.available()]
    wanted = [e for e in TABLE.values() if arguments.only in e.name or arguments.only in e.kind]
    entries = [e for e in wanted if not e.available()]
    if arguments.seeds < 1 or not entries:
        parser.error("nothing to measure")
    measured = measure(entries, arguments.seeds)
    tools = [DEFAULT, SUPPLIED, BINARY, *(rule.name for rule in RULES)]
    notes = [
        f"A fault counts as caught if it is in each of {arguments.seeds} seeds, a correct kernel as accused if in any.",
        f"{DEFAULT}: a default check. {SUPPLIED}: where an entry says that it needs more (another layout, a",
        f"neighbouring shape, more calls), it is given. {BINARY}: zeroulp with the 0/1 probe only, 5 trials. The rest",
        "are other tools' rules as `zeroulp rules` applies them, on the problem as it stands.\n",
        missed(measured),
        misnamed(measured),
        undecided(measured),
        *(f"skipped {line}" for line in skipped),
    ]
    head = ["kind of fault", "kernels", *(HEADS.get(tool, tool) for tool in tools)]
    report("Faults caught, and correct kernels accused", head, rows_by_kind(measured, tools), "\n".join(notes))
    if arguments.json:
        Path(arguments.json).write_text(
            json.dumps({"seeds": arguments.seeds, "tools": tools, "kernels": measured}, indent=1) + "\n"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
