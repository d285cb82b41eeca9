"""The catalogue of traces: what is known, from where a file comes, how to make it here.

In: `catalogue.json`, a name out of it, and the URL of a folder that the user names. Out: a frame;
a trace whose digest is the listed one (get), or one that is recorded or made up here (make).
Read first: `entries.py`; `get.py` fetches with `download.py` and `location.py`, `make.py` makes,
`page.py` derives the table of traces/catalogue.md.
"""

from .entries import catalogue
from .get import get_trace
from .make import make_trace

__all__ = ["catalogue", "get_trace", "make_trace"]
