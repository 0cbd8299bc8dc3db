"""
Shapes of a grid checked several at a time, each by a process of its own that judges.

What could not be decided while others were running is checked again alone, after they have ended:
a shape for which there was not enough memory; a process that died; a kernel that is BROKEN, unless
it plainly refused its arguments. What that comes to counts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeroulp.arrays.threads import cores
from zeroulp.checks.grid_shape import Checked, undecided
from zeroulp.report import Verdict
from zeroulp.runner.messages import Channel
from zeroulp.runner.process import signal_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from zeroulp.checks.session import Session
    from zeroulp.report.grid import GridHeader
    from zeroulp.sizes import Sizes

_LOOK_SECONDS = 0.2  # how often silent processes are looked at: a child of theirs may hold the pipe open
_ENDING_SECONDS = 5.0  # from SIGTERM to SIGKILL
_MOST_DEATHS = 2  # of processes that check one shape
_PLAIN = re.compile(
    "the kernel (returned |raised (Assertion|Attribute|Index|Key|Name|NotImplemented|Runtime|Type|Value)Error)"
)
_SCARCE = re.compile(
    "memory|alloc|resource|initiali|busy|unavailable|in use|cuda|cublas|cudnn|driver|device", re.IGNORECASE
)
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""What numpy, PyTorch and we ourselves go by: processes that each used all cores would wait for one another."""


class Job:
    """
    A process that checks one shape after the other; `zeroulp.checks.job` is what it runs.

    Args:
        request: What is the same for all shapes.
        threads: For libraries that spread work over cores, unless the environment says how many.
    """

    def __init__(self, request: dict[str, Any], threads: int) -> None:
        self.sizes: Sizes | None = None
        self.trial = self.trials = 0
        self.started = 0.0
        to_job, from_job = os.pipe(), os.pipe()
        theirs = [to_job[0], from_job[1]]
        path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "zeroulp.checks.job", *map(str, theirs)],
            pass_fds=theirs,
            stdin=subprocess.DEVNULL,
            env={**dict.fromkeys(_THREADS, str(threads)), **os.environ, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the parent, which ends it
        )
        for descriptor in theirs:
            os.close(descriptor)
        self.descriptor = from_job[0]
        self._channel = Channel(from_job[0], to_job[1])
        self._send(request)

    def begin(self, sizes: Sizes, share: int) -> None:
        """Let it check a shape, with one in *share* parts of the memory."""
        self.sizes, self.trial, self.trials, self.started = sizes, 0, 0, time.perf_counter()
        self._send({"sizes": sizes._asdict(), "share": share})

    def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has died, as its other pipe will tell
            self._channel.send(message)

    def look(self) -> dict[str, Any] | None:
        """Its next message; None if there is none yet. Raises EOFError if it has died, or sends rubbish."""
        has_ended = self.process.poll() is not None
        try:
            return self._channel.receive(0.0)
        except TimeoutError:
            if has_ended:
                raise EOFError from None
            return None
        except ValueError:
            raise EOFError from None

    def ask_to_end(self) -> None:
        """Tell it to end; `close` waits for it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def close(self) -> int:
        """See that it has ended, and what it started. Returns its exit status."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_ENDING_SECONDS)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self._channel.close()
        return self.process.wait()


class Jobs:
    """
    Some processes, and the shapes that they check.

    Args:
        session: Which kernel, and where it runs; it is not loaded here.
        header: The grid.
        options: Of the checks.
        say: Called with the process that was heard of last, and how many are at work.
    """

    def __init__(
        self,
        session: Session,
        header: GridHeader,
        options: dict[str, Any],
        say: Callable[[Job, int], None],
    ) -> None:
        self._session, self._header, self._options, self._say = session, header, options, say
        self._request = {
            "kernel": session.spec.to_dict(),
            "isolation": session.isolation,
            "deadline_seconds": session.deadline_seconds,
            "problem": header.problem.to_dict(),
            "seed": header.seed,
            "options": options,
        }
        self._jobs: list[Job] = []
        self._deaths: dict[Sizes, list[tuple[int, float]]] = {}  # exit status and seconds of each
        self._has_loaded = False

    @property
    def elapsed(self) -> float:
        """Seconds that the shapes now being checked have taken, together."""
        return sum(time.perf_counter() - job.started for job in self._busy)

    def run(self, shapes: Iterable[Sizes], *, fail_fast: bool) -> Iterator[Checked]:
        """
        Check all of *shapes*.

        The first is checked alone, until the kernel is loaded: so a request that makes no sense is told
        at once, and what a kernel compiles is there for all.

        Args:
            shapes: In the order in which they are begun.
            fail_fast: Put off nothing that may be BROKEN to the end.

        Yields:
            What each comes to, as soon as that is decided.

        Raises:
            RuntimeError: If a check failed by a fault of our own.
        """
        waiting = deque(shapes)
        put_off: list[Sizes] = []
        try:
            self._start(min(self._header.jobs, len(waiting)))
            while waiting:
                if not self._has_loaded:
                    yield self._alone(waiting.popleft())
                    continue
                for sizes, checked in self._heard(waiting, self._header.jobs, until=put_off if fail_fast else ()):
                    if checked is None or _may_be_for_the_others(checked):
                        put_off.append(sizes)
                    else:
                        yield checked
                if put_off:
                    self._end_all()
                    for sizes in sorted(put_off, key=self._header.shapes.index):
                        yield self._alone(sizes)
                    put_off = []
        finally:
            self._end_all()

    def _alone(self, sizes: Sizes) -> Checked:
        checked = None
        while checked is None:
            [(_, checked)] = self._heard(deque([sizes]), 1)
            deaths = self._deaths.get(sizes, [])
            if checked is None and len(deaths) >= _MOST_DEATHS:
                checked = self._undecided(sizes, *deaths[-1])
        return dataclasses.replace(checked, has_loaded=self._has_loaded)

    def _heard(
        self, waiting: deque[Sizes], at_once: int, until: Sequence[Sizes] = ()
    ) -> Iterator[tuple[Sizes, Checked | None]]:
        """Begin shapes of *waiting* while *until* is empty; yields what they come to, None where the process died."""
        while True:
            while waiting and not until and len(self._busy) < at_once:
                self._idle().begin(waiting.popleft(), at_once)
            busy = self._busy
            if not busy:
                return
            working = min(at_once, len(busy) + len(waiting))
            self._say(busy[-1], working)
            select.select([job.descriptor for job in busy], [], [], _LOOK_SECONDS)
            for job in busy:
                assert job.sizes is not None
                try:
                    checked = self._news_of(job, working)
                except EOFError:
                    seconds = time.perf_counter() - job.started
                    self._jobs.remove(job)
                    job.ask_to_end()
                    self._deaths.setdefault(job.sizes, []).append((job.close(), seconds))
                    yield job.sizes, None
                    continue
                if checked is not None:
                    sizes, job.sizes = job.sizes, None
                    yield sizes, checked

    def _news_of(self, job: Job, working: int) -> Checked | None:
        """What its shape came to, if it has; else how far it is, if it says so. Raises EOFError."""
        while (message := job.look()) is not None:
            if "fault" in message:
                raise RuntimeError(message["fault"]) from RuntimeError(message["trace"])
            if "checked" in message:
                checked = Checked.from_dict(message["checked"])
                self._has_loaded |= checked.has_loaded
                return checked
            self._has_loaded |= message["has_loaded"]
            job.trial, job.trials = message["trial"], message["trials"]
            self._say(job, working)
        return None

    @property
    def _busy(self) -> list[Job]:
        return [job for job in self._jobs if job.sizes is not None]

    def _idle(self) -> Job:
        """One that has nothing to do; a new one if there is none."""
        for job in [job for job in self._jobs if job.sizes is None]:
            if job.process.poll() is None:
                return job
            self._jobs.remove(job)
            job.close()
        return self._start(1)[-1]

    def _start(self, count: int) -> list[Job]:
        """Start some, which get ready while others are at work."""
        threads = max(1, cores() // self._header.jobs)
        self._jobs += [Job(self._request, threads) for _ in range(count)]
        return self._jobs

    def _end_all(self) -> None:
        for job in self._jobs:
            job.ask_to_end()
        while self._jobs:
            self._jobs.pop().close()

    def _undecided(self, sizes: Sizes, status: int, seconds: float) -> Checked:
        """What a shape comes to whose process died again and again; *status* is that of the last."""
        how = f"died of {signal_name(-status)}" if status < 0 else f"ended with exit status {status}"
        is_kernel = self._session.isolation == "none" and status != -signal.SIGKILL
        if is_kernel:
            verdict, reason = Verdict.BROKEN, (f"the process of the kernel {how}", "isolation 'process' keeps its log")
        else:
            what = f"the process that judged this shape {how}, {_MOST_DEATHS} times"
            verdict, reason = Verdict.INCONCLUSIVE, (what, "a machine with more memory, or smaller sizes")
        problem, seed = self._header.problem.replace(**sizes._asdict()), self._header.seed
        data = undecided(self._session, problem, verdict, reason, seed=seed, options=self._options, seconds=seconds)
        return Checked(data, is_final=is_kernel, has_loaded=self._has_loaded)


def _may_be_for_the_others(checked: Checked) -> bool:
    """Whether a shape may have come to this because others were being checked beside it."""
    if not checked.is_final:
        return True
    if checked.report["verdict"] != Verdict.BROKEN.value:
        return False
    reason = checked.report["reasons"][0]["reason"]
    return not checked.has_loaded or not _PLAIN.match(reason) or bool(_SCARCE.search(reason))
