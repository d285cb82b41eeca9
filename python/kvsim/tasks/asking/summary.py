"""Scores of tasks: means over texts with intervals, and which tasks the model can do at all."""

from __future__ import annotations

import pandas as pd

from ...bootstrap import FEWEST_SAMPLES
from ...command.csv_text import csv_text
from ...errors import DataError
from ...errors.terminal import printable
from ...results.task_scores import WITHIN_REACH, row_scores

ALL = "all within reach"
# What scores are of, but for the task and its length: rows of several are told apart.
SETTING = ["model_id", "mode", "seed", "question", "in_view", "most_tokens"]
GROUP = [*SETTING, "task", "length_request", "budget_request", "policy"]


def scores(rows: pd.DataFrame) -> pd.DataFrame:
    """Sums up the table `task_answer`.

    Parameters
    ----------
    rows : pandas.DataFrame
        Rows of the table, with those of the full cache.

    Returns
    -------
    pandas.DataFrame
        One row per model, mode, seed, question, in_view, most_tokens, task, length as it was asked
        for (0: the texts do not say), budget as requested and policy, in the order of `rows`:
        `texts`; `score`, the mean over texts, with the ends `low` and `high` of its 95% interval
        (bootstrap over texts, NaN for one); `difference` to the full cache with `difference_low`
        and `difference_high`; and `exact`, `f1` and `nll`. `is_within_reach` says whether the full
        cache scores 0.6 or more at the task and length. Rows of the task "all within reach" are
        means over the texts of all such.

    Raises
    ------
    DataError
        For rows without those of the full cache, and for no rows.

    Notes
    -----
    A turn's score is `contains`, the share of the answer's values that the generated text contains,
    or where nothing was generated the share whose tokens are each the most likely one; a text's is
    the mean over its turns, those whose question was seen when the context was compressed
    (`in_view`) apart from others.

    Examples
    --------
    >>> kvsim.tasks.scores(kvsim.load("results.sqlite").task_answer)
    """
    from ...closed_loop.prediction import interval_over_texts

    if rows.empty:
        raise DataError("expected rows of the table task_answer, found none; evaluate tasks first")
    texts = of_texts(rows)
    keys = [*SETTING, "task", "length_request"]
    full = texts[texts["policy"] == "full"].drop_duplicates([*keys, "sequence"])
    full = full.set_index([*keys, "sequence"])["score"]
    reach = full.groupby(level=keys, sort=False).mean() >= WITHIN_REACH
    texts["full"] = full.reindex(pd.MultiIndex.from_frame(texts[[*keys, "sequence"]])).to_numpy()
    if texts["full"].isna().any():
        row = texts[texts["full"].isna()].iloc[0]
        raise DataError(f"{row['sequence']}: expected a row of the policy full, found none")
    texts["is_within_reach"] = reach.reindex(pd.MultiIndex.from_frame(texts[keys])).to_numpy(bool)
    both = pd.concat([texts, _within_reach(texts)])
    found = []
    for values, group in both.groupby(GROUP, sort=False):
        score = group["score"].to_numpy(float)
        difference = score - group["full"].to_numpy(float)
        low, high = interval_over_texts(score)
        difference_low, difference_high = interval_over_texts(difference)
        found.append(
            dict(zip(GROUP, values, strict=True))
            | {
                "label": group["label"].iloc[0],
                "texts": len(group),
                "score": score.mean(),
                "low": low,
                "high": high,
                "difference": difference.mean(),
                "difference_low": difference_low,
                "difference_high": difference_high,
                "exact": group["exact"].mean(),
                "f1": group["f1"].mean(),
                "nll": group["nll"].mean(),
                "is_within_reach": bool(group["is_within_reach"].all()),
            }
        )
    return pd.DataFrame(found)


def _within_reach(texts: pd.DataFrame) -> pd.DataFrame:
    return texts[texts["is_within_reach"]].assign(task=ALL, length_request=0)


def of_texts(rows: pd.DataFrame) -> pd.DataFrame:
    """A row per text: means over its turns, with `score`."""
    rows = rows.assign(
        score=row_scores(rows),
        task=rows["task"].where(rows["task"].notna(), "no task"),
        length_request=rows["length_request"].fillna(0).astype(int),
        label=rows["label"].where(rows["label"].notna(), rows["policy"]),
        **{name: rows[name].astype(float) for name in ("exact", "f1", "nll")},
    )
    measured = ["score", "exact", "f1", "nll"]
    means = rows.groupby([*GROUP, "label", "sequence"], sort=False)[measured].mean()
    return means.reset_index()


def printed(found: pd.DataFrame, form: str) -> str:
    """The scores as a table, csv or json, with a newline at the end."""
    if form == "csv":
        return csv_text(found)
    if form == "json":
        return found.to_json(orient="records", indent=1) + "\n"
    several = [*SETTING, "length_request"]
    several = [name for name in several if name != "question" and found[name].nunique() > 1]
    shown = pd.DataFrame(
        {
            "task": found["task"].map(printable),
            "question": found["question"],
            **{name: found[name].astype(str).str[:12] for name in several},
            "policy": found["label"].map(printable),
            "budget": found["budget_request"].map(printable),
            "texts": found["texts"],
            "score": [_with_ends(*row) for row in _columns(found, "score", "low", "high")],
            "less full": [
                _with_ends(*row, sign="+")
                for row in _columns(found, "difference", "difference_low", "difference_high")
            ],
        }
    )
    for name in ("exact", "f1"):
        if found[name].notna().any():
            shown[name] = [f"{value:.2f}" for value in found[name]]
    shown["NLL"] = [f"{value:.3f}" for value in found["nll"]]
    shown.insert(1, "", ["" if reached else "*" for reached in found["is_within_reach"]])
    text = shown.to_string(index=False) + "\n"
    if not found["is_within_reach"].all():
        text += (
            f"* below {WITHIN_REACH:.0%} with the full cache: the task says nothing about "
            f"policies, and is left out of {ALL}\n"
        )
    text += "means over texts, with 95% intervals over texts"
    if found["texts"].min() < FEWEST_SAMPLES:
        text += f"; fewer than {FEWEST_SAMPLES} texts distinguish no policies"
    return text + "\n"


def _columns(found: pd.DataFrame, *names: str) -> zip:
    return zip(*(found[name] for name in names))


def _with_ends(value: float, low: float, high: float, sign: str = "") -> str:
    ends = "" if pd.isna(low) else f" [{low:{sign}.2f}, {high:{sign}.2f}]"
    return f"{value:{sign}.2f}{ends}"
