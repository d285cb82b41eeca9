"""Trains the scorers of the policy `learned` on recorded attention.

In: traces, and what their future holds (`kvsim.labels`). Out: a file .npz of scorers, from
`kvsim.train` or `python -m kvsim.train`. Read first: `run.py`, then `samples.py`.
"""

from .run import train

__all__ = ["train"]
