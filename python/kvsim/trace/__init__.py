"""Traces: the queries, keys and values of a model on some texts, from a file or from arrays.

In: a path, arrays, or the bytes of a trace that another process sent. Out: an open trace, whose
units are read-only arrays. Read first: `trace.py`, then `contents.py`, what a trace lists, and
`unit.py`, what it reads. `from_arrays.py` makes a trace of arrays, which `arrays.py` checks;
`spans.py` has the labelled parts of a text, `notebook.py` what a notebook shows. The format is in
traces/README.md.
"""

from .contents import Layer, Sequence
from .spans import Span
from .trace import Trace, trace_at, trace_of_image
from .unit import Unit

__all__ = ["Layer", "Sequence", "Span", "Trace", "Unit", "trace_at", "trace_of_image"]
