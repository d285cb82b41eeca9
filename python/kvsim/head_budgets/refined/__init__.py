"""A split of a model's budget, refined by what groups of its layers lose in the running model.

In: a model, texts and their trace, a policy and a table of `head_budgets`. Out: another table, and
what was measured for it. Read first: `run.py`. It needs torch and transformers.
"""

from .run import Refined, refined_budgets

__all__ = ["Refined", "refined_budgets"]
