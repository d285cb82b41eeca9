"""The measures by which figures and titles may rank policies, and how their numbers read."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...results.columns import sign


@dataclass(frozen=True)
class Ranking:
    """A measure in `Comparison.means` that says which policy is better."""

    measure: str
    name: str

    @property
    def is_loss(self) -> bool:
        """Whether less is better."""
        return sign(self.measure) < 0

    @property
    def best(self) -> str:
        return f"{'least' if self.is_loss else 'highest'} {self.name}"

    def decimals(self, value: float, of_share: int) -> int:
        """Decimals of a number and its interval: as many as give an error three digits."""
        if not self.is_loss or not value or not math.isfinite(value):
            return of_share
        return max(0, 2 - math.floor(math.log10(abs(value))))


# In the order of preference: how well each agrees with a running model at one budget is in
# sim/results/comparisons.md.
RANKINGS = (
    Ranking("calibrated_kl", "calibrated KL"),
    Ranking("projected_error", "projected error"),
    Ranking("output_error_sq", "squared output error"),
    Ranking("attention_recall", "attention recall"),
)
