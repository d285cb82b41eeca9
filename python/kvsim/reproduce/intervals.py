"""The mean of a measure over texts, with its 95% interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..bootstrap import UNIT, Samples


@dataclass(frozen=True)
class Interval:
    """The mean of a statistic over texts, and its 95% interval; no interval of a single text."""

    mean: float
    low: float | None
    high: float | None
    samples: int


def interval_of(values: pd.Series) -> Interval:
    """The mean of one value per text, with the interval of `kvsim compare` over sequences.

    `values` has the names of the texts as its index. There must be at least one.
    """
    units = pd.DataFrame({"sequence": values.index.astype(str)}).assign(layer=0, kv_head=0)
    samples = Samples(units[UNIT])
    ordered = values.set_axis(units["sequence"])[samples.units.get_level_values("sequence")]
    of_texts = ordered.to_numpy(float)[None]
    (low,), (high,) = samples.limits(samples.drawn_means(of_texts))
    mean = float(samples.mean(of_texts)[0])
    if np.isnan(low):
        return Interval(mean, None, None, samples.count)
    return Interval(mean, float(low), float(high), samples.count)
