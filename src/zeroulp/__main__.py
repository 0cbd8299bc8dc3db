"""``python -m zeroulp``: the command line."""

from zeroulp.cli import main

raise SystemExit(main())
