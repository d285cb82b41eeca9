"""The paired bootstrap of `kvsim compare`, for many statistics of the same units at once.

It makes the draws that the program makes (sim/results/paired_bootstrap.cpp), so both give the same
intervals: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, section 13.3.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

DRAWS = 2000
FEWEST_SAMPLES = 5  # from as many on, sequences are the samples; and samples support a verdict
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
        with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is meant
            of_draw = _random_bits(np.uint64(self._seed), np.arange(DRAWS, dtype=np.uint64))
            bits = _random_bits(of_draw[:, None], np.arange(self.count, dtype=np.uint64))
        drawn = ((bits >> np.uint64(32)) * np.uint64(self.count)) >> np.uint64(32)
        places = drawn.astype(np.int64) + self.count * np.arange(DRAWS)[:, None]
        counts = np.bincount(places.ravel(), minlength=DRAWS * self.count)
        return counts.reshape(DRAWS, self.count).astype(float)


def _mixed(x: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64, as in sim/base/random_bits.h."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _random_bits(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _mixed(_mixed(x) ^ y)
