"""
All of a check, as data, and its renderings.

``model`` is the data; ``codec`` turns it into JSON and back without loss; ``text`` says it to
people. A rendering is a function of the data and of nothing else.
"""

from zeroulp.report.codec import SCHEMA_VERSION, from_json, to_json
from zeroulp.report.model import Finding, Report, TrialRecord, Verdict
from zeroulp.report.text import render_text

__all__ = ["SCHEMA_VERSION", "Finding", "Report", "TrialRecord", "Verdict", "from_json", "render_text", "to_json"]
