"""What a sweep would reach on many workers: a small model of the schedule.

In: a sweep and conditions of workers. Out: a frame with a row per number of workers. Read first:
`run.py`.
"""

from .run import scale

__all__ = ["scale"]
