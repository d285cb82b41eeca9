"""The ranked frame: what each spec lost at each stage, with intervals over held-out texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ..bootstrap import UNIT, Samples

COLUMNS = [
    "policy", "role", "stage", "open_loop_loss", "imposed_loss", "held_out_loss", "low", "high",
    "ratio", "ratio_low", "ratio_high",
]  # fmt: skip
FOUND, DEFAULT, OPTIMUM = "found", "default", "optimum"


class HeldOut:
    """Losses of specs on held-out texts, all of the same texts: 95% intervals over texts.

    One text has no interval: NaN. Means and intervals of ratios draw the same texts for both.
    """

    def __init__(self, rows: pd.DataFrame, loss: str, seed: int = 0) -> None:
        """`rows`: sequence, policy and the loss, one budget."""
        table = rows.pivot(index="policy", columns="sequence", values=loss)
        table = table.reindex(columns=sorted(table.columns))
        units = pd.DataFrame({"sequence": table.columns, "layer": 0, "kv_head": 0})[UNIT]
        self._samples = Samples(units, seed)
        self._table = table
        self._drawn = self._samples.drawn_means(table.to_numpy())

    @property
    def policies(self) -> list[str]:
        return list(self._table.index)

    def means(self) -> dict[str, float]:
        return dict(zip(self.policies, self._samples.mean(self._table.to_numpy()).tolist()))

    def frame(self, best_default: str) -> pd.DataFrame:
        """Per policy: held_out_loss, low, high, and its ratio to the best default likewise."""
        low, high = self._samples.limits(self._drawn)
        base = self.policies.index(best_default)
        mean = self._samples.mean(self._table.to_numpy())
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio, ratios = mean / mean[base], self._drawn / self._drawn[base]
        ratio_low, ratio_high = self._samples.limits(ratios)
        return pd.DataFrame(
            {
                "policy": self.policies, "held_out_loss": mean, "low": low, "high": high,
                "ratio": ratio, "ratio_low": ratio_low, "ratio_high": ratio_high,
            }
        )  # fmt: skip


def ranked(
    roles: Mapping[str, str],
    open_loop: Mapping[str, float],
    imposed: Mapping[str, tuple[int, float]],
    held_out: pd.DataFrame,
    winner: str,
) -> pd.DataFrame:
    """A row per spec: the winner first, then those that came further, then those that lost less."""
    measured = held_out.set_index("policy")
    rows = []
    for spec, role in roles.items():
        texts, loss = imposed.get(spec, (0, np.nan))
        row = {
            "policy": spec, "role": role, "open_loop_loss": open_loop.get(spec, np.nan),
            "imposed_loss": loss, "_texts": texts, "_held": spec in measured.index,
        }  # fmt: skip
        row["stage"] = _stage(row["_held"], texts)
        rows.append(row | (measured.loc[spec].to_dict() if row["_held"] else {}))
    frame = pd.DataFrame(rows)
    frame["_first"] = frame["policy"] == winner
    order = ["_first", "_held", "_texts", "held_out_loss", "imposed_loss", "open_loop_loss"]
    ascending = [False, False, False, True, True, True]
    return frame.sort_values(order, ascending=ascending, kind="stable")[COLUMNS].reset_index(
        drop=True
    )


def _stage(is_held_out: bool, texts: int) -> str:
    if is_held_out:
        return "held-out texts"
    return f"imposed on {texts}" if texts else "open loop"


def curve_points(
    rows: pd.DataFrame, loss: str, roles: Mapping[str, str], seed: int = 0
) -> pd.DataFrame:
    """What a figure shows: per spec and budget the mean tokens, and the mean loss with interval."""
    found: list[pd.DataFrame] = []
    for request, at in rows.groupby("budget_request", sort=False):
        held = HeldOut(at, loss, seed)
        tokens = at.groupby("policy")["budget"].mean()
        part = held.frame(held.policies[0])[["policy", "held_out_loss", "low", "high"]]
        part = part.rename(columns={"held_out_loss": "loss"})
        part["tokens"] = part["policy"].map(tokens)
        found.append(part.assign(budget_request=request))
    points = pd.concat(found, ignore_index=True)
    points["role"] = points["policy"].map(roles)
    return points.sort_values(["policy", "tokens"], ignore_index=True)


def best_of(losses: Mapping[str, float], count: int) -> list[str]:
    """The specs that lose least, ties in alphabetical order; what is no number is the most."""
    return sorted(losses, key=lambda spec: (np.isnan(losses[spec]), losses[spec], spec))[:count]


def mean_losses(rows: pd.DataFrame, loss: str, specs: Sequence[str]) -> dict[str, float]:
    """Over the texts, in the order of the specs; NaN where one text has no number."""
    means = rows.groupby("policy")[loss].agg(lambda losses: losses.mean(skipna=False))
    return {spec: float(means[spec]) for spec in specs}
