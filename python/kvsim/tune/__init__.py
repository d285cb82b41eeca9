"""The search for a policy, with its parameters, that loses least at a budget.

In: traces, or a model and texts; a budget; a space of specs. Out: a ranked frame with intervals on
texts that the search did not see, a figure, and a recipe. Read first: `run.py`, then `stages.py`;
`space.py` parses spaces, `search.py` asks Optuna, `open_loop.py` replays, `halving.py` and
`imposed.py` run finalists in the model, `ranking.py` computes intervals.

Optuna, torch and transformers are imported on first use.
"""

from .run import tune
from .tuned import Tuned

__all__ = ["Tuned", "tune"]
