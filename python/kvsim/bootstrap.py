"""The paired bootstrap of `kvsim compare`, for many statistics of the same units at once.

The draws are those of the program (sim/results/paired_bootstrap.h), so both give the same
intervals: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, section 13.3.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from . import _engine

if TYPE_CHECKING:
    import pandas as pd

DRAWS = _engine.BOOTSTRAP_DRAWS
# From as many on, sequences are the samples; and samples support a verdict.
FEWEST_SAMPLES = _engine.FEWEST_SAMPLES
UNIT = ["sequence", "layer", "kv_head"]
_OUTSIDE = 0.025  # the share of draws on either side of an interval


class Samples:
    """What is drawn with replacement: sequences or, where there are fewer than five, units.

    `units` names them with the columns UNIT, and trace_id if there are several traces, whose
    sequences have different names. Arrays of values have one column per unit, in the
    order of `self.units`, and any number of rows.
    """

    def __init__(self, units: pd.DataFrame, seed: int = 0):
        order = ["trace_id", *UNIT] if "trace_id" in units else UNIT
        units = units[order].drop_duplicates().sort_values(order)
        self.units = units.set_index(UNIT).index
        self._sequence_of, names = units["sequence"].factorize()
        self.sampled = "sequences" if len(names) >= FEWEST_SAMPLES else "units"
        self._sizes = np.bincount(self._sequence_of).astype(float)
        self.count = len(names) if self.sampled == "sequences" else len(units)
        self._seed = seed

    @property
    def are_enough(self) -> bool:
        """Whether an interval that excludes 0 is a verdict: five samples, units too.

        That of n samples excludes 0 whenever all have one sign: by chance in 2^(1-n) of all cases.
        """
        return self.count >= FEWEST_SAMPLES

    def mean(self, values: np.ndarray) -> np.ndarray:
        """The mean of each row over samples, that of a sequence being the mean over its units."""
        return self._of_samples(values, self._sizes).mean(axis=1)

    def drawn_means(self, values: np.ndarray) -> np.ndarray:
        """The mean of each row in every draw, [rows, DRAWS]."""
        return self._of_samples(values, self._sizes) @ self._counts.T / self.count

    def drawn_sums(self, values: np.ndarray) -> np.ndarray:
        """The sum of each row over all drawn units in every draw, [rows, DRAWS]."""
        return self._of_samples(values, np.ones_like(self._sizes)) @ self._counts.T

    def limits(self, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ends of the 95% intervals of statistics, given in every draw as [rows, DRAWS].

        NaN if a draw has no value, or if there is a single sample.
        """
        drawn = drawn if self.count > 1 else np.full_like(drawn, np.nan)
        low, high = np.percentile(drawn, [100 * _OUTSIDE, 100 - 100 * _OUTSIDE], axis=1)
        return low, high

    def _of_samples(self, values: np.ndarray, divisors: np.ndarray) -> np.ndarray:
        if self.sampled == "units":
            return values
        sums = np.zeros((len(values), self.count))
        np.add.at(sums, (slice(None), self._sequence_of), values)
        return sums / divisors

    @cached_property
    def _counts(self) -> np.ndarray:
        """How often each draw takes each sample, [DRAWS, samples]."""
        return _engine.bootstrap_counts(self.count, self._seed)
