"""Makes a trace of the queries, keys and values that somebody dumped with hooks.

In: files .npz, .safetensors and .pt, or arrays. Out: a trace, and notes that say what was decided
about it. Read first: `run.py`, which takes one layer after the other; `sources.py` opens files
without reading them, `names.py` finds layers and datasets in the names of arrays, `layouts.py`
finds the axes in shapes, `heads.py` undoes repeated keys, padding and missing rotation, and
`proof.py` compares attention with the outputs.
"""

from __future__ import annotations

from .run import import_arrays

__all__ = ["import_arrays"]
