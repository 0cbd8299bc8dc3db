"""
All of a check, as data, and its renderings.

``model`` is the data; ``codec`` turns it into JSON and back without loss; ``text`` says it to
people; ``shapes`` and ``shapes_text`` do so for a check of several shapes. A rendering is a function
of the data and of nothing else.
"""

from zeroulp.report.codec import SCHEMA_VERSION, from_json, to_json
from zeroulp.report.model import Finding, Report, TrialRecord, Verdict
from zeroulp.report.shapes import ShapesReport, holds_shapes, shapes_from_json, shapes_to_json
from zeroulp.report.shapes_text import render_shapes_text
from zeroulp.report.text import render_text

__all__ = [
    "SCHEMA_VERSION",
    "Finding",
    "Report",
    "ShapesReport",
    "TrialRecord",
    "Verdict",
    "from_json",
    "holds_shapes",
    "render_shapes_text",
    "render_text",
    "shapes_from_json",
    "shapes_to_json",
    "to_json",
]
