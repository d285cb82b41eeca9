"""The budget of every head at 99 compression ratios, as kvpress' LUKVPress reads it.

In: curves of all heads of a model. Out: an array; from the command
`python -m kvsim.head_budgets CURVES.sqlite -o FILE.npy` a file. Read first: `split.py`.
"""

from .split import head_budgets

__all__ = ["head_budgets"]
