"""
The command line: ``zeroulp check | plan | replay | rules | formats | bench``.

One file per command; ``arguments`` holds the options they share, ``console`` is the only place
that knows about terminals. The exit status is the answer.
"""

from zeroulp.cli.main import main

__all__ = ["main"]
