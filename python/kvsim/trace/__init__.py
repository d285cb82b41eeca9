"""Traces: the queries, keys and values of a model on some texts, from a file or from arrays.

In: a path, arrays, or the bytes of a trace that another process sent. Out: an open trace, whose
units are read-only arrays. Read first: `trace.py`, then `contents.py`, what a trace lists;
`arrays.py` checks what `Trace.from_arrays` gets, `spans.py` the labelled parts of a text. The
format is in traces/README.md.
"""

from .contents import Layer, Sequence
from .spans import Span
from .trace import Trace, Unit, trace_at, trace_of_image

__all__ = ["Layer", "Sequence", "Span", "Trace", "Unit", "trace_at", "trace_of_image"]
