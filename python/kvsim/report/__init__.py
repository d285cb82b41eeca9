"""Figures and a page from a result file: `python -m kvsim.report RESULTS.sqlite -o DIR`."""

from kvsim.report.choice import Choice, ChoiceError
from kvsim.report.frames import Comparison
from kvsim.report.page import write_report

__all__ = ["Choice", "ChoiceError", "Comparison", "write_report"]
