"""Presses of kvpress as policies.

In: a `ScorerPress`. Out: a class of policy that evicts by its scores. Read first:
`press_policy.py`; `press_inputs.py` has what a press is given in place of a model.
"""

from .press_policy import Needs, from_kvpress

__all__ = ["Needs", "from_kvpress"]
