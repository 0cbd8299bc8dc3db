"""What a difference is called, where a kernel is given by a reference and its formula is not known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp import encoding
from zeroulp.checks.judging import on_host
from zeroulp.checks.linear_bench import LinearBench, different
from zeroulp.diagnose import whereabouts
from zeroulp.errors import KernelError
from zeroulp.formats import PLAIN
from zeroulp.judge import Differs, Matched, differing
from zeroulp.report import Finding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zeroulp.checks.bench import Observation
    from zeroulp.plan import Trial
    from zeroulp.problem import Linear

_TYPICAL = 8  # bits of sums that such transforms lose; operands narrowed to 11 bits lose more
_ANOTHER = (
    "no result is further off than the transforms of Winograd or Fourier make it; if the kernel uses such, and may, "
    "declare algorithm='any'"
)
_LEANS = "a kernel that divides term by term may be right and differ; division='any' leaves such elements out"


def name_linear(bench: LinearBench, trial: Trial, seen: Observation, before: Observation | None) -> Finding:
    """
    The finding for a trial whose values differ; a kernel that breaks now is wrong all the same.

    Args:
        bench: To run it again on.
        trial: The trial.
        seen: What it showed.
        before: What the trial before showed, if there was one.
    """
    outcome, problem = seen.outcome, bench.problem
    assert isinstance(outcome, Differs), "its values differ"
    where = whereabouts(outcome, problem.output.shape) + _of_the_compared(outcome)
    inputs: Any = seen.inputs
    leans = inputs.followed.tracked.outputs[0].leans
    evidence = (("leans on", f"{', '.join(sorted(leans))}: {_LEANS}"),) if leans else ()
    if _is_of_another_algorithm(seen, problem):
        evidence = (*evidence, ("another algorithm", _ANOTHER))

    def finding(kind: str, clause: str, replay: tuple[int, ...] = ()) -> Finding:
        sentence = f"{problem.title} {clause}."
        return Finding(kind, sentence, trial.index, replay or trial.needs, evidence)

    plain = finding("wrong-result", f"returns wrong values, {where}")
    try:
        wrong = _wrong(seen, seen.results[0], bench)
        again = bench.observe(trial, calls=2, judged=False)
        if _holds_poison(seen, again, wrong, bench):
            return finding("unwritten-output", f"leaves outputs unwritten, {where}")
        stale = before is not None and _is_stale(seen, before, wrong, bench)
        if again.results and (different(again.results[0], seen.results[0], problem) & wrong).any() and not stale:
            return finding("nondeterministic", f"returns other bits when called again on the same inputs, {where}")
        if stale and before is not None:
            replay = tuple(dict.fromkeys((before.inputs.trial.index, *trial.needs)))
            text = "returns an earlier result: its inputs changed in place and its output did not"
            return finding("stale-result", text, replay)
        if trial.moved and isinstance(bench.observe(replace(trial, moved=False), calls=1).outcome, Matched):
            text = "reads where its operands lay in earlier calls, not where they lie now"
            return finding("stale-result", text, _with(before, trial))
        bare = bench.observe(trial, calls=1, plain_guards=True, judged=False)
        if bare.results and (different(bare.results[0], seen.results[0], problem) & wrong).any():
            text = "reads outside its inputs: the result depends on what lies beside them"
            return finding("out-of-bounds-read", f"{text}, {where}")
    except KernelError:
        pass
    return plain


def _is_of_another_algorithm(seen: Observation, problem: Linear) -> bool:
    """Whether all errors are small against the largest sum, and a contract that allows for them would be one."""
    inputs: Any = seen.inputs
    certificate, format_ = inputs.trial.certificate, problem.out_format
    if problem.algorithm == "any" or format_.is_integer or format_ in PLAIN or certificate.largest_sum < 2**_TYPICAL:
        return False
    actual = encoding.decode(on_host(seen.results[0], format_), format_)
    wanted = encoding.decode(inputs.expected.codes, format_)
    with np.errstate(invalid="ignore"):
        off = np.abs(actual - wanted)[np.asarray(inputs.followed.compared)]
    most = certificate.largest_sum * 2.0 ** (certificate.quantum_exponent + _TYPICAL - certificate.precision)
    return bool((off <= most).all())


def _with(before: Observation | None, trial: Trial) -> tuple[int, ...]:
    return trial.needs if before is None else tuple(dict.fromkeys((before.inputs.trial.index, *trial.needs)))


def _of_the_compared(outcome: Differs) -> str:
    return "" if outcome.compared == outcome.elements else f" ({outcome.compared:,} of them compared)"


def _wrong(seen: Observation, codes: Any, bench: LinearBench) -> NDArray[np.bool_]:
    """Which compared elements are wrong."""
    inputs: Any = seen.inputs
    format_, expected = bench.problem.out_format, inputs.expected
    return np.asarray(differing(on_host(codes, format_), expected, format_) & inputs.followed.compared)


def _holds_poison(seen: Observation, again: Observation, wrong: NDArray[np.bool_], bench: LinearBench) -> bool:
    """Whether wrong elements hold what stood there before the call, whatever that was."""
    pairs = [pair for one in (seen, again) for pair in zip(one.results, one.poisons, strict=False)]
    format_ = bench.problem.out_format
    held = [on_host(result, format_) == poison for result, poison in pairs if isinstance(poison, int)]
    poisons = {poison for _, poison in pairs if isinstance(poison, int)}
    return len(poisons) > 1 and bool((np.logical_and.reduce(held) & wrong).any())


def _is_stale(seen: Observation, before: Observation, wrong: NDArray[np.bool_], bench: LinearBench) -> bool:
    """Whether the result has the bits of the trial before, where it is wrong and in most other places."""
    if not before.results or tuple(before.results[0].shape) != tuple(seen.results[0].shape):
        return False
    differ = different(before.results[0], seen.results[0], bench.problem)
    return not (differ & wrong).any() and int(np.count_nonzero(differ)) <= differ.size / 2
