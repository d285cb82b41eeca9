"""The best split of a budget over heads, by what each loses at each share of its text."""

from __future__ import annotations

import numpy as np


def parts_by_gain(losses: np.ndarray, least: int, totals: np.ndarray) -> np.ndarray:
    """The split of each of `totals` parts with the least sum of losses: [totals, heads], parts.

    `losses` [heads, parts + 1] is what each head loses with 0, 1, ... of its parts. No head gets
    fewer than `least`; a total that does not reach that is split evenly. A curve counts as its
    greatest convex minorant from `least` on: there each further part of a head gains less than the
    one before, and so the parts with the largest gains are the best split of any total.
    """
    heads, parts = len(losses), losses.shape[1] - 1
    gains = np.full((heads, parts), np.inf)
    for own, curve in zip(gains, losses):
        own[least:] = -np.diff(convex_minorant(curve[least:]))
    # The first part of every head comes before the second where they gain the same.
    order = np.lexsort((np.tile(np.arange(parts), heads), -gains.ravel()))
    head_of = np.repeat(np.arange(heads), parts)[order]
    return np.array([np.bincount(head_of[:total], minlength=heads) for total in totals])


def convex_minorant(values: np.ndarray) -> np.ndarray:
    """Of values at 0, 1, 2, ...: the lower part of their convex hull."""
    corners: list[int] = []
    for right in range(len(values)):
        while len(corners) > 1:
            left, middle = corners[-2:]
            rise = (values[right] - values[left]) * (middle - left)
            if (values[middle] - values[left]) * (right - left) < rise:
                break
            corners.pop()
        corners.append(right)
    return np.interp(np.arange(len(values)), corners, values[corners])
