"""A running model whose attention sees only what policies keep.

In: a model of transformers, policies in the engine (`_engine`), tokens as the model reads them.
Out: the model's own outputs after eviction, and what was kept. Read first: `model.py`: it
intercepts attention. `geometry.py` checks that a model can be evicted in, `visible.py` masks what
has left, `eviction.py` drives a model from outside, `dropping.py` takes rows out of the model's own
cache.
"""

from .model import Beginning, EvictingModel

__all__ = ["Beginning", "EvictingModel"]
