"""
The exception tree: one small class per kind of trouble, data first, text last.

::

    ZeroulpError
      UsageError              the request makes no sense           exit 2
        ProblemError          sizes, formats, contract or probes disagree
        UnknownNameError      no such format, probe, ...; lists close names
        KernelNotFoundError   the kernel's file, module or symbol does not exist
        ReportFileError       a report cannot be read, or does not fit
        ProgramError          a reference cannot be run and tracked
      KernelError             the kernel under test broke          exit 4
        KernelRaisedError     it raised an exception
        KernelCrashedError    its process died
        KernelTimedOutError   it ran past the deadline
        KernelResultError     it returned no array
      AuditFailedError        a device's arithmetic cannot be believed     exit 3
      KernelIncorrectError    raised by ``assert_correct``; an AssertionError too

Every message answers four questions: what was wrong, where, why, and what to do.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


class ZeroulpError(Exception):
    """
    Base of all errors this library raises on purpose.

    Args:
        what: What was wrong, with the offending value.
        where: Which operand, argument or file.
        why: The reason, in terms of the theory or the system.
        do: What the user can do about it.
    """

    code = "error"

    def __init__(self, what: str, *, where: str = "", why: str = "", do: str = "") -> None:
        super().__init__(what)
        self.what, self.where, self.why, self.do = what, where, why, do

    def __str__(self) -> str:
        lines = [self.what]
        lines += [f"  {label:<6} {text}" for label, text in self._details() if text]
        return "\n".join(lines)

    def _details(self) -> list[tuple[str, str]]:
        return [("where", self.where), ("why", self.why), ("do", self.do)]


class UsageError(ZeroulpError):
    """The request makes no sense as it stands; nothing was run."""

    code = "usage"


class ProblemError(UsageError):
    """Sizes, formats, layouts, contract or probes contradict each other."""

    code = "problem"


class UnknownNameError(UsageError):
    """A name that is in none of our tables."""

    code = "unknown-name"

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        names = sorted(known)
        close = difflib.get_close_matches(str(name), names, n=3)
        do = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(names)}"
        super().__init__(f"unknown {kind} {name!r}", do=do)
        self.name = name


class KernelNotFoundError(UsageError):
    """The kernel's file, module, function or symbol does not exist."""

    code = "kernel-not-found"


class ReportFileError(UsageError):
    """A report file that cannot be read, or that does not fit this version."""

    code = "report-file"


class ProgramError(UsageError):
    """A reference that cannot be run in float64 and watched: random, failing, or leaving PyTorch."""

    code = "program"


class KernelError(ZeroulpError):
    """
    The kernel under test broke, so there is no result to judge.

    Args:
        what: What happened.
        log: The end of its output or traceback.
        why: The reason, where it is known.
        do: What the user can do about it.
    """

    code = "broken"

    def __init__(self, what: str, *, log: str = "", why: str = "", do: str = "") -> None:
        super().__init__(what, why=why, do=do)
        self.log = log


class KernelRaisedError(KernelError):
    """The kernel raised an exception, on import or when called."""

    code = "raised"


class KernelCrashedError(KernelError):
    """The process that ran the kernel died."""

    code = "crashed"


class KernelTimedOutError(KernelError):
    """The kernel ran past its deadline."""

    code = "timed-out"


class KernelResultError(KernelError):
    """The kernel returned something that is no array."""

    code = "no-array"


class AuditFailedError(ZeroulpError):
    """The host finds on a device what neither was to be drawn there nor is a kernel's fault."""

    code = "audit"


class KernelIncorrectError(ZeroulpError, AssertionError):
    """
    ``assert_correct`` did not get the verdict CORRECT.

    An AssertionError as well, so that pytest shows a failed test and not an error in it.

    Args:
        message: The rendered report.
        report: The report itself.
    """

    code = "incorrect"

    def __init__(self, message: str, report: Any) -> None:
        super().__init__(message)
        self.report = report
