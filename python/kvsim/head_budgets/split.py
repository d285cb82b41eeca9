"""Splits a model's budget over its heads by what each loses."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import UsageError
from ..files.head_tables import RATIOS
from .curves import PARTS, least_parts, lengths_of, mean_curves
from .heads import by_layer, heads_of
from .hull import parts_by_gain
from .tables import ATTENTION, rows_of

if TYPE_CHECKING:
    import pandas as pd

    from ..results import Results
    from ..trace import Trace


def head_budgets(
    losses: str | os.PathLike[str] | Results | Mapping[str, pd.DataFrame] | pd.DataFrame,
    policy: str | None = None,
    *,
    metric: str = ATTENTION,
    least: str | float | None = None,
    sequences: str | Sequence[str] | None = None,
    trace: str | Path | Trace | None = None,
) -> np.ndarray:
    """Splits a model's budget over its heads so that the total loss is smallest.

    Parameters
    ----------
    losses : path, Results, dict of str to pandas.DataFrame, or pandas.DataFrame
        Of all layers and KV heads of a model: a frame of kvsim.curve, or one of kvsim.sweep at
        several budgets, or a result file, what kvsim.load gives, or a dict of its tables. Of a file
        the table `curve` counts where it has the metric, else `replay`.
    policy : str, optional
        Whose losses, by its name or spec, where there are several: a split is as good as the policy
        that it was made for.
    metric : str, default "attention_loss"
        "attention_loss", 1 - recall; or of a sweep "output_error_sq"; "predicted_kl", from a trace
        with output_score_grad; "projected_error" of a result file, from a trace with
        output_projection. That is measured per layer; at each budget its heads have parts of it in
        proportion to their `output_error_sq`.
    least : str, int or float, optional
        What every head keeps, in tokens (64) or as a share of its text ("5%", 0.05); None: one
        token.
    sequences : str or sequence of str, optional
        Names; None: all. Their losses are averaged at equal shares of their length.
    trace : path or Trace, optional
        The trace of the losses, which knows how many layers and KV heads the model has. None: the
        highest ones with losses count as its last, so that curves of its first layers alone pass
        for a smaller model. A sweep in prefill mode needs it.

    Returns
    -------
    ndarray, float32, shape (99, layers, kv_heads)
        Row i is for the compression ratio (i + 1) / 100, its values are the share of its tokens
        that each head *removes*, and their mean is the ratio; NaN where layers have fewer heads
        than others, or read the cache of another one. The press of kvpress (LU-KV) takes these of a
        file.

    Raises
    ------
    UsageError
        For losses that are not those of one policy, trace, mode and seed on all heads, or are of
        pages.
    DataError
        Where the metric is missing; and as `kvsim.Trace`.
    ResultsError
        As `kvsim.load`.

    Notes
    -----
    With L(b) the loss of a head at budget b, and the total kept fixed, the sum of all L is smallest
    where the next token goes to the head that gains most by it (marginal utility), if each L is
    convex; an L that is not is replaced by its greatest convex minorant, as in the paper. So the
    sum over heads is optimal to the step of 1/1000 of a head's text, if losses add up. Budgets are
    shares of the text, in prefill mode of the prompt. L is 0 where a head holds all tokens. Between
    budgets of a curve it is linear; between those of a sweep its logarithm is, but linear where a
    loss is 0. Without tokens all attention is lost; of the other metrics nothing is known below the
    smallest budget, so every head keeps that much, and ratios that do not allow it are split
    evenly.

    References
    ----------
    LU-KV, arXiv 2602.08585.

    Examples
    --------
    >>> losses = kvsim.sweep(trace, "h2o", ["5%", "10%", "20%", "40%", "70%"])
    >>> np.save("budgets.npy", kvsim.head_budgets(losses, metric="predicted_kl", trace=trace))
    """
    frame = rows_of(losses, policy, metric, sequences)
    heads = heads_of(frame, trace)
    _check_budgets(frame)
    lengths = lengths_of(frame, trace)
    texts = {name: lengths[name] for name in frame.sequence.unique()}
    curves = mean_curves(frame, texts, metric)
    known = int(np.isnan(curves).sum(axis=1).max())
    if known >= PARTS:
        raise UsageError("budget: expected budgets below the length of the text; sweep some")
    floor = max(known, least_parts(least, texts))
    ratios = np.arange(1, RATIOS + 1)
    kept = parts_by_gain(curves, floor, (100 - ratios) * PARTS // 100 * len(curves))
    return by_layer((1 - kept / PARTS).astype(np.float32), heads)


def _check_budgets(frame: pd.DataFrame) -> None:
    """Raises UsageError where some heads of a text were replayed at other budgets than others."""
    for sequence, rows in frame.groupby("sequence"):
        counts = rows.groupby(["layer", "kv_head"]).budget.nunique()
        if counts.nunique() > 1:
            (layer, head), fewest = counts.idxmin(), counts.min()
            raise UsageError(
                f"budget: expected {counts.max()} budgets of each head in sequence {sequence}, "
                f"found {fewest} of KV head {head} of layer {layer}; finish the sweep"
            )
