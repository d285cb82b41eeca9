"""kvsim.train: traces in, a file of scorers out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import UsageError
from ..files.partial import written_whole
from ..verbs.options import listed, opened
from ..verbs.progress import Progress, reporter
from .file import with_zeros, write_scorers
from .samples import Samples, joined, samples_of
from .scorers import fitted, require_library, scores
from .wanted import Wanted, groups_of, has_cache, header_of, texts_of

if TYPE_CHECKING:
    import pandas as pd

    from ..trace import Trace

MOST = 500_000
"""Samples of a scorer."""
FEATURES = ["now", "mean", "largest", "age", "decayed:0.8", "decayed:0.95", "decayed:0.99"]
FEATURES += ["neighbours:0.95", "key", "key_norm", "value_norm", "key_like_mean", "first"]
FEATURES += ["position", "punctuation"]


def train(
    traces: str | Path | Trace | Sequence[str | Path | Trace],
    output: str | os.PathLike[str],
    *,
    kind: str = "linear",
    scope: str = "head",
    target: str = "future",
    features: Sequence[str] | None = None,
    budgets: str | float | Sequence[str | float] = ("10%", "20%"),
    policy: str = "h2o",
    sequences: str | Sequence[str] | None = None,
    seed: int = 0,
    progress: Progress = None,
) -> pd.DataFrame:
    """Trains scorers for the policy `learned` on the future of recorded attention.

    Samples are tokens in the caches of `policy`, with the features that an online policy may see
    and what became of the tokens later.

    Parameters
    ----------
    traces : path, Trace, or sequence of these
        Of one model.
    output : path
        A file .npz, which is replaced.
    kind : {"linear", "mlp", "trees"}, default "linear"
        "linear", a ridge regression; "mlp", a network of 16 hidden units; "trees", 50 boosted trees
        of depth 4; each by scikit-learn.
    scope : {"head", "layer", "model"}, default "head"
        A scorer for each KV "head", for each "layer", or one for the "model".
    target : {"future", "price", "optimum"}, default "future"
        What a score predicts: "future", the log of the attention to come (plus .1 steps); "price",
        the same relative to the price of a slot at that step; "optimum", whether the exact optimum
        still keeps the token.
    features : sequence of str, optional
        Their names (policies/learned/README.md); None: all but `value` and `special`.
    budgets : str, int, float, or sequence of these, default ("10%", "20%")
        Of the caches that the samples are of.
    policy : str, default "h2o"
        Whose caches the samples are of; one that evicts a token at a time, `learned` included, so
        that a second round can learn from the caches of the first.
    sequences : str or sequence of str, optional
        Names; None: all. What a scorer is measured on should not be among them.
    seed : int, default 0
        Of the draws, of a network's first weights, and of trees.
    progress : bool or callable, optional
        As for `kvsim.sweep`, in scorers.

    Returns
    -------
    pandas.DataFrame
        A row per scorer: layer and kv_head, as far as it is for one; samples, of all texts; and
        explained, the share of the target's variance in the last text that a fit to the others
        explains (NaN with one text).

    Raises
    ------
    UsageError
        Where scikit-learn is missing; else as `kvsim.labels` and `kvsim.sweep`.
    DataError
        For traces without what is needed or of several models.
    KvsimError, KeyboardInterrupt
        As `kvsim.labels` and `kvsim.sweep`.

    Notes
    -----
    Samples are taken at every 16th step of a text if it evicts, 48 of each cache; a scorer gets at
    most 500,000, drawn of all. The file holds the fit to all texts; layers without a cache of their
    own get scores of 0.

    Examples
    --------
    >>> kvsim.train("trace.h5", "model.npz", sequences=["a", "b"])
    >>> kvsim.sweep("trace.h5", "learned:file=model.npz;h2o", "20%", sequences="c")
    """
    import pandas as pd

    require_library()
    path = Path(output)
    if path.suffix != ".npz":
        raise UsageError(f"output: expected a file .npz, found {path}")
    names = FEATURES if features is None else features
    names = names.split(",") if isinstance(names, str) else list(names)
    wanted = Wanted(kind, scope, target, names, listed(budgets), policy, seed)
    models = opened(traces)
    texts = texts_of(models, sequences)
    header = header_of(models, texts, wanted)
    groups = groups_of(header)
    scorers, rows = [], []
    # The file is opened first: a training takes its time.
    with written_whole(path) as partial, reporter(progress, "scorers") as report:
        for place, group in enumerate(groups):
            if has_cache(models, group):
                of_text = [
                    samples_of(model, name, group, wanted, header, MOST // len(texts))
                    for model, name in texts
                ]
                scorers.append(fitted(kind, joined(of_text), seed))
                rows.append({**group, **_held_out(kind, of_text, seed)})
            else:
                scorers.append(None)
                rows.append({**group, "samples": 0, "explained": np.nan})
            if report is not None:
                report(place + 1, len(groups))
        write_scorers(partial, header, with_zeros(scorers))
    return pd.DataFrame(rows)


def _held_out(kind: str, of_text: list[Samples], seed: int) -> dict[str, float]:
    """The samples, and what a fit to all texts but the last explains of that one."""
    *others, last = of_text
    row = {"samples": sum(len(each.targets) for each in of_text), "explained": np.nan}
    spread = last.targets.var() if len(last.targets) else 0
    if others and spread > 0 and any(len(each.targets) for each in others):
        predicted = scores(kind, fitted(kind, joined(others), seed), last.features)
        row["explained"] = 1 - float(np.mean((last.targets - predicted) ** 2) / spread)
    return row
