"""
All of a check, as data, and its renderings.

``model`` is the data; ``codec`` turns it into JSON and back without loss; ``text`` says it to
people; ``shapes`` and ``shapes_text`` do so for a check of several shapes, ``grid``, ``journal`` and
``grid_text`` for one of very many. A rendering is a function of the data and of nothing else.
"""

from zeroulp.report.codec import SCHEMA_VERSION, from_json, to_json
from zeroulp.report.grid import GridReport
from zeroulp.report.grid_text import render_grid_text
from zeroulp.report.journal import grid_from_jsonl, holds_grid, shape_from_jsonl
from zeroulp.report.model import Audited, Finding, Report, Tracking, TrialRecord, Verdict
from zeroulp.report.shapes import ShapesReport, holds_shapes, shapes_from_json, shapes_to_json
from zeroulp.report.shapes_text import render_shapes_text
from zeroulp.report.text import render_text

__all__ = [
    "SCHEMA_VERSION",
    "Audited",
    "Finding",
    "GridReport",
    "Report",
    "ShapesReport",
    "Tracking",
    "TrialRecord",
    "Verdict",
    "from_json",
    "grid_from_jsonl",
    "holds_grid",
    "holds_shapes",
    "render_grid_text",
    "render_shapes_text",
    "render_text",
    "shape_from_jsonl",
    "shapes_from_json",
    "shapes_to_json",
    "to_json",
]
