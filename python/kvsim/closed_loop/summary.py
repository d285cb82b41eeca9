"""Means over texts of the table `closed_loop`, with intervals of differences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..bootstrap import UNIT, Samples
from ..command.csv_text import csv_text
from ..errors.terminal import printable

MEANS = ["kl_mean", "delta_nll", "top1_agreement", "kept_overlap"]
SUMS = ["answers", "answers_right_full", "answers_right"]
COMPARED = ["kl_mean", "delta_nll"]


def summary(frame: pd.DataFrame, order: Sequence[str] = ()) -> pd.DataFrame:
    """A row per policy and budget as requested, policies in `order` (canonical specs), if given.

    Columns: policy (its label, if it has one), budget, texts; the means over texts of MEANS; the
    sums of SUMS; peak_tokens (the most of any text) and cache_bytes (mean); and of COMPARED the
    mean difference to the first policy at the same budget, `NAME_difference`, with the ends of its
    95% interval, `NAME_low` and `NAME_high`, of the paired bootstrap over texts: NaN for the first
    policy and where there are fewer than two texts.
    """
    places = {policy: place for place, policy in enumerate(order)}
    asked = frame["policy"].map(lambda policy: places.get(policy, len(places)))
    frame = frame.iloc[np.argsort(asked.to_numpy(), kind="stable")]
    rows = frame.assign(
        policy=frame["label"].where(frame["label"].notna(), frame["policy"]).astype(str),
        budget=frame["budget_request"],
    )
    groups = rows.groupby(["policy", "budget"], sort=False)
    found = groups.size().rename("texts").to_frame()
    found[MEANS] = groups[MEANS].mean().astype(float)
    found[SUMS] = groups[SUMS].sum().astype(int)  # those of texts without answers are NULL
    found["peak_tokens"] = groups["peak_tokens"].max()
    found["cache_bytes"] = groups["cache_bytes"].mean()
    differences = _differences(rows)
    return found.join(differences).reset_index()


def printed(found: pd.DataFrame, form: str) -> str:
    """The summary as a table, csv or json, with a newline at the end."""
    if form == "csv":
        return csv_text(found)
    if form == "json":
        return found.to_json(orient="records", indent=1) + "\n"
    found = found.assign(policy=found["policy"].map(printable))
    shown = pd.DataFrame({"policy": found["policy"], "budget": found["budget"]})
    for column, name in (("kl_mean", "KL"), ("delta_nll", "delta NLL")):
        shown[name] = [f"{value:.4f}" for value in found[column]]
        if found[f"{column}_difference"].notna().any():
            ends = (f"{column}_difference", f"{column}_low", f"{column}_high")
            shown[f"to {found.policy[0]}"] = [
                _difference(*values) for values in zip(*(found[end] for end in ends))
            ]
            shown = shown.rename(columns={f"to {found.policy[0]}": f"{name}, difference"})
    shown["top-1"] = [f"{value:.1%}" for value in found["top1_agreement"]]
    if found["answers"].sum():
        shown["answers"] = [f"{a} of {b}" for a, b in zip(found.answers_right, found.answers)]
        shown["full"] = [f"{a} of {b}" for a, b in zip(found.answers_right_full, found.answers)]
    if (found["kept_overlap"] < 1).any():
        shown["overlap"] = ["" if np.isnan(v) else f"{v:.3f}" for v in found["kept_overlap"]]
    shown["peak tokens"] = found["peak_tokens"].astype(str)
    return _aligned(shown) + "\n" + _words(found)


def _differences(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns of differences, by policy and budget."""
    first = rows["policy"].iloc[0]
    of_texts = rows.assign(layer=0, kv_head=0).set_index(["policy", "budget", *UNIT])
    found = []
    for (policy, budget), group in of_texts.groupby(level=["policy", "budget"], sort=False):
        line: dict[str, object] = {"policy": policy, "budget": budget}
        there = policy != first and (first, budget) in of_texts.index
        for column in COMPARED:
            ends = (np.nan, np.nan, np.nan)
            if there:
                ends = _interval(group[column], of_texts.loc[(first, budget), column])
            line |= dict(zip((f"{column}_{end}" for end in ("difference", "low", "high")), ends))
        found.append(line)
    return pd.DataFrame(found).set_index(["policy", "budget"]).astype(float)


def _interval(ours: pd.Series, theirs: pd.Series) -> tuple[float, float, float]:
    differences = (ours.droplevel(["policy", "budget"]) - theirs).dropna().astype(float)
    if differences.empty:
        return (np.nan, np.nan, np.nan)
    samples = Samples(differences.index.to_frame(index=False))
    values = differences.reindex(samples.units).to_numpy()[None]
    (low,), (high,) = samples.limits(samples.drawn_means(values))
    return float(samples.mean(values)[0]), float(low), float(high)


def _difference(value: float, low: float, high: float) -> str:
    if np.isnan(value):
        return ""
    return f"{value:+.4f}" + ("" if np.isnan(low) else f" [{low:+.4f}, {high:+.4f}]")


def _words(found: pd.DataFrame) -> str:
    texts = int(found["texts"].max())
    line = f"means over {texts} text{'' if texts == 1 else 's'}, KL and NLL in nats per token"
    if not found["kl_mean_difference"].notna().any():
        return line + "\n"
    line += f"; differences to {found.policy[0]} at the same budget"
    if texts > 1:
        line += ", with 95% intervals over texts"
    if texts < 5:
        line += "; fewer than five texts distinguish no policies"
    return line + "\n"


def _aligned(shown: pd.DataFrame) -> str:
    """Text to the left, numbers to the right."""
    columns = []
    for index, name in enumerate(shown):
        cells = [name, *shown[name]]
        width = max(map(len, cells))
        columns.append([c.ljust(width) if index == 0 else c.rjust(width) for c in cells])
    return "\n".join("  ".join(row).rstrip() for row in zip(*columns))
