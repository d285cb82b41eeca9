"""Draws figures and a page from a result file: `python -m kvsim.report RESULTS.sqlite -o DIR`.

In: a result file. Out: a folder with a page and a file per figure. Read first: `page.py`, then
`numbers/frames.py`, where the numbers come from; `pictures.py` writes the files.

The modules that draw are imported on first use, so that the command can report a missing library.
"""

from .numbers.choice import Choice, ChoiceError

__all__ = ["Choice", "ChoiceError", "Comparison", "write_report"]


def __getattr__(name: str) -> object:
    if name == "Comparison":
        from .numbers.frames import Comparison

        return Comparison
    if name == "write_report":
        from .page import write_report

        return write_report
    raise AttributeError(f"module 'kvsim.report' has no attribute {name!r}")
