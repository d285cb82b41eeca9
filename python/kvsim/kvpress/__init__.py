"""Presses of kvpress as policies.

In: a press. Out: a class of policy that keeps what it keeps. Read first: `press_policy.py`;
`press_inputs.py` has what a press is given in place of a model, `needs.py` finds out what it reads
of that, `in_model.py` runs it in a model, `refusals.py` says which presses are no policies.
"""

from .needs import Needs
from .press_policy import from_kvpress

__all__ = ["Needs", "from_kvpress"]
