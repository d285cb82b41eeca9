"""What each head loses as a function of its share of the text, averaged over texts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import UsageError
from ..verbs.options import opened
from .tables import ATTENTION

if TYPE_CHECKING:
    import pandas as pd

    from ..trace import Trace

PARTS = 1000  # of a head's tokens that are assigned one by one; 10 per percent
Lengths = Mapping[str, tuple[int, int]]  # of each text: what shares are of, and all its tokens


def mean_curves(frame: pd.DataFrame, lengths: Lengths, metric: str) -> np.ndarray:
    """The loss of each head with 0, 1, .. of its parts: [heads, PARTS + 1], mean over texts.

    NaN below the smallest budget of any text; but without tokens a head loses all attention.
    """
    is_curve = _is_curve(frame)
    curves = []
    for _, of_head in frame.groupby(["layer", "kv_head"]):
        of_texts = []
        for text, rows in of_head.sort_values("budget").groupby("sequence"):
            length, tokens = lengths[text]
            budgets, losses = rows.budget.to_numpy(), rows.loss.to_numpy()
            if budgets[-1] < tokens:
                budgets, losses = np.append(budgets, tokens), np.append(losses, 0.0)
            if metric == ATTENTION:
                budgets, losses = np.append(0, budgets), np.append(1.0, losses)
            places = np.arange(PARTS + 1) / PARTS * length
            if is_curve:
                of_texts.append(np.interp(places, budgets, losses, left=np.nan))
            else:
                of_texts.append(between(places, budgets, losses))
        curves.append(np.mean(of_texts, axis=0))
    return np.array(curves)


def between(places: np.ndarray, measured: np.ndarray, losses: np.ndarray) -> np.ndarray:
    """The losses at `places`, from those that were measured at a few; NaN below the first.

    Losses fall about exponentially, so between two above 0 the logarithm is linear. A chord would
    count too much there, and draw every split to the places that were measured.
    """
    linear = np.interp(places, measured, losses, left=np.nan)
    positive = losses > 0
    right = np.clip(np.searchsorted(measured, places), 1, len(measured) - 1)
    logarithms = np.log(np.where(positive, losses, 1.0))
    curved = np.exp(np.interp(places, measured, logarithms, left=np.nan))
    return np.where(positive[right - 1] & positive[right], curved, linear)


def lengths_of(frame: pd.DataFrame, trace: str | Path | Trace | None) -> Lengths:
    """In prefill mode shares are of the prompt."""
    mode = frame["mode"].iloc[0]
    if _is_curve(frame):
        ends = frame.groupby("sequence").agg(last=("budget", "max"), steps=("steps", "first"))
        # Of a curve in stream mode all budgets have as many steps.
        return {
            text: (last - steps if last > steps else last, last) for text, last, steps in
            ends.itertuples()
        }  # fmt: skip
    if trace is not None:
        (found,) = opened(trace)
        return {
            text.name: (text.prompt_length if mode.startswith("prefill") else text.num_tokens,
                        text.num_tokens)
            for text in found.sequences
        }  # fmt: skip
    if not mode.startswith("stream") or "reference=" in mode:
        raise UsageError(
            f"trace: expected the trace of the rows, whose mode {mode} does not say how long its "
            "texts are; name it"
        )
    return {text: (steps, steps) for text, steps in frame.groupby("sequence").steps.max().items()}


def _is_curve(frame: pd.DataFrame) -> bool:
    """Whether it has every budget, of kvsim curve, and not those that a sweep was asked for."""
    return "budget_request" not in frame.columns


def least_parts(least: str | float | None, lengths: Lengths) -> int:
    """The fewest parts that a head keeps; None stands for one token."""
    share = _share(1 if least is None else least, lengths)
    if share is None or not 0 <= share <= 1:
        raise UsageError(
            'least: expected tokens (64) or a share of the text ("5%", 0.05), of no more than the '
            f"text has, found {least!r}"
        )
    return math.ceil(share * PARTS - 1e-6)


def _share(least: object, lengths: Lengths) -> float | None:
    if isinstance(least, str):
        percent = re.fullmatch(r"(\d+(?:\.\d*)?)%", least)
        if percent:
            return float(percent[1]) / 100
        least = int(least) if re.fullmatch(r"\d{1,12}", least) else None
    if isinstance(least, float):
        return least
    if isinstance(least, (int, np.integer)) and not isinstance(least, bool):
        return least / min(length for length, _ in lengths.values())
    return None
