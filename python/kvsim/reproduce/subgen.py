"""SubGen (Zandieh et al., 2024): retrieval from long texts against the size of the cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .claims import Claim, Finding, judged
from .rows import ANSWERS, FULL

if TYPE_CHECKING:
    from .experiment import Experiment

BUDGETS = ("20%", "50%", "58%", "65%")  # the last three are those of the table
# Table 1 is "based on k-center algorithm" with recent tokens, not on Algorithm 1.
POLICIES = {"sink": "sink", "H2O": "h2o", "SubGen": "kcenter"}
ONCE = {"mode": "prefill", "eviction_interval": "never"}
ESTIMATOR = {"Algorithm 1": "subgen", "k-center": "kcenter"}

_CELLS = (
    "LongEval lines, longchat-7B, accuracy at 5k, 7k, 9k tokens, caches of 65%, 58%, 50%; "
    "Exact 0.98, 1.0, 0.68; Sink 0.56, 0.56, 0.38; H2O 0.66, 0.58, 0.38; SubGen 0.86, 0.66, 0.44"
)
OVER_H2O = Claim("SubGen", "Table 1", "SubGen retrieves more than H2O with the same cache", _CELLS)
OVER_SINK = Claim(
    "SubGen", "Table 1", "SubGen retrieves more than Sink with the same cache", _CELLS
)
BELOW_EXACT = Claim("SubGen", "Table 1", "the exact cache retrieves most", _CELLS)
ALGORITHM_1 = Claim(
    "SubGen", "Algorithm 1",
    "the estimator, whose retrieval the paper does not measure, next to k-center; both stay within "
    "their budget, as an estimator has no tokens to cut once",
)  # fmt: skip


def findings(experiment: Experiment) -> Iterator[Finding]:
    """The paper's claims, and what the model shows of each.

    The prompt is compressed once, as in section 3.2, and what follows stays.
    """
    budgets = experiment.budgets(BUDGETS)
    measured = [
        experiment.measure(group, POLICIES, budgets, protocol=ONCE) for group in experiment.groups
    ]
    for claim, other in ((OVER_H2O, "H2O"), (OVER_SINK, "sink"), (BELOW_EXACT, None)):
        for rows in measured:
            for budget in reversed(rows.budgets):
                ours = rows.at("SubGen", budget)
                pair = (FULL, ours) if other is None else (ours, rows.at(other, budget))
                yield judged(claim, rows, ANSWERS, *pair)
    for group in experiment.groups:
        rows = experiment.measure(
            group, ESTIMATOR, budgets, protocol=ONCE, loop="adaptive", is_steady=True
        )
        for budget in reversed(rows.budgets):
            pair = (rows.at("Algorithm 1", budget), rows.at("k-center", budget))
            yield judged(ALGORITHM_1, rows, ANSWERS, *pair, claimed=False)
