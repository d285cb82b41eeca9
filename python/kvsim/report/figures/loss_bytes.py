"""Draws what is lost against the bytes of a cache, where policies store tokens in other sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from ...results.columns import better
from ...results.points import bytes_of
from ..numbers.closed_loop import ClosedLoop
from ..numbers.frames import Comparison
from ..numbers.selection import sentence
from ..numbers.standing import OF_THE_MODEL
from ..style import Shape, Style, Theme
from . import Drawing, Plan, explore, line_style
from .curves import axis_end, make_room
from .line_names import name_lines
from .measures import ERRORS

NAME, TITLE = "loss-bytes", "Loss against bytes"
_SAME = 0.01  # relative: sizes of a token that differ by less are one
_MORE = 10  # times what is typical: larger losses are beyond the axis
_LESS = 0.1  # times the least loss of a policy that competes: smaller ones are below the axis
_SHIFT = 12.0  # points between the bars of the first and the last policy, about
_STEPS = (1, 2, 5)  # between powers of ten, where an axis spans few of them
_SHARE_LOST = "attention lost (share of attention, 0–1)"


@dataclass(frozen=True)
class _Losses:
    """`rows`, by policy and point in the order of bytes: bytes, loss, loss_low and loss_high."""

    rows: pd.DataFrame
    label: str  # of the axis
    name: str
    better: str
    samples: int
    sampled: str  # what they are
    source: Comparison | ClosedLoop

    @property
    def styles(self) -> Mapping[str, Style]:
        return self.source.styles

    @property
    def policies(self) -> list[str]:
        return list(self.rows.index.unique("policy"))

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the axis of losses, which a few very large or small ones do not stretch."""
        losses, oracles = self.rows["loss"], self.source.oracles
        above = losses[losses > 0]
        competes = self.rows["holds"] & ~self.rows.index.isin(oracles, level="policy")
        competing = above[competes.reindex(above.index)]
        least = (competing if len(competing) else above).min()
        cut = _MORE * axis_end(losses.groupby("policy").max(), oracles)
        inside = above[(above >= _LESS * least) & (above <= cut)]
        return inside.min() / 1.15, inside.max() * 1.15

    @property
    def inside(self) -> pd.DataFrame:
        """The rows that the axis shows."""
        return self.rows[self.rows["loss"].between(*self.ends)]


def plan(comparison: Comparison) -> list[Plan]:
    """The running model decides where it ran, the measure that ranks policies elsewhere. Nothing
    where a byte is worth as many tokens under all policies."""
    if not _stores_differ(comparison):
        return []
    losses = _losses(comparison)
    if losses is None or not (losses.rows["loss"] > 0).any():
        return []
    text = (
        f"{losses.name[0].upper()}{losses.name[1:]}, {losses.better}, against the bytes that the "
        "cache of a KV head takes: keys, values, codes and scales as they are stored, the most "
        "after any step, the mean over units (`cache_bytes`). Both axes are logarithmic. At the "
        "same bytes a policy that stores its tokens in fewer of them keeps more tokens."
    )
    if isinstance(losses.source, ClosedLoop):
        text += f" The model runs with each policy ({losses.source.loop} loop)."
    text += sentence(comparison)
    if losses.samples == 1:
        text += f" One {losses.sampled[:-1]} gives no intervals."
    else:
        text += f" Bars: 95% intervals of the mean over {losses.samples} {losses.sampled}."
    text += _outside(losses)
    last = losses.rows.groupby("policy").tail(1)
    alt = f"{TITLE}: " + ", ".join(
        f"{losses.styles[spec].label} {row.loss:.3g} in {row.bytes:,.0f} bytes"
        for (spec, _), row in last.sort_values("loss", kind="stable").iterrows()
    )
    draw = partial(_draw, losses)
    return [Drawing(NAME, TITLE, text, alt, draw, _explore(losses, comparison))]


def _stores_differ(comparison: Comparison) -> bool:
    """Whether budgets are sizes, or some policies store a token, or what counts as one, in other
    bytes than others do."""
    if any(bytes_of(point) is not None for point in comparison.points.index):
        return True
    means = comparison.means.xs(comparison.point, level="point")
    means = means[means.index.isin(comparison.shown) & (means["peak_tokens"] > 0)]
    of_token = means["cache_bytes"] / means["peak_tokens"]
    return bool(of_token.max() > (1 + _SAME) * of_token.min())


def _losses(comparison: Comparison) -> _Losses | None:
    closed, measure = ClosedLoop(comparison), OF_THE_MODEL.measure
    source: Comparison | ClosedLoop = comparison
    if closed.has(measure):
        source, name = closed, OF_THE_MODEL.name
        label, samples, sampled = f"{name} (nats per token)", closed.texts_of(measure), "texts"
    elif not comparison.has_reference:
        return None
    else:
        measure, name = comparison.ranking.measure, comparison.ranking.name
        label = ERRORS[measure][2] if measure in ERRORS else _SHARE_LOST
        samples = comparison.intervals_of(measure).samples.count
        sampled = comparison.sample_name(measure)
    rows = source.means[[measure, f"{measure}_low", f"{measure}_high"]]
    rows = rows.set_axis(["loss", "loss_low", "loss_high"], axis=1)
    said = better(measure)
    if label == _SHARE_LOST:
        rows = 1 - rows.rename(columns={"loss_low": "loss_high", "loss_high": "loss_low"})
        name, said = "attention lost", "lower is better"
    of_replay = comparison.means[["cache_bytes", "holds"]].reindex(rows.index)
    rows = rows.assign(bytes=of_replay["cache_bytes"], holds=of_replay["holds"].eq(True))
    rows = rows[rows.index.isin(source.shown, level="policy") & (rows["bytes"] > 0)]
    rows = rows.dropna(subset="loss").sort_values(["policy", "bytes"], kind="stable")
    return _Losses(rows, label, name, said, samples, sampled, source)


def _outside(losses: _Losses) -> str:
    """The sentences about what the axis of losses leaves out."""
    low, high = losses.ends
    largest = losses.rows["loss"].groupby("policy").max()
    least = losses.rows["loss"].groupby("policy").min()
    text = ""
    for where, specs in (
        ("Beyond the axis", largest.index[largest > high]),
        ("Below the axis, or nothing lost", least.index[least < low]),
    ):
        if len(specs):
            text += f" {where}: {', '.join(losses.styles[spec].label for spec in specs)}."
    return text


def _draw(losses: _Losses, theme: Theme, shape: Shape) -> Figure:
    low, high = losses.ends
    sizes = losses.inside["bytes"]
    height = max(shape.height, 0.165 * len(losses.policies) + 1.0)
    figure = Figure(figsize=(shape.width, height))
    names = {spec: losses.styles[spec].label for spec in losses.policies}
    right = 1 - (0.42 + 0.068 * max(map(len, names.values()))) / shape.width
    left, bottom = 0.55 / shape.width, 0.5 / height
    axes = figure.add_axes((left, bottom, right - left, 1 - 0.12 / height - bottom))
    axes.set_xscale("log")
    axes.set_yscale("log")
    ends = {}
    order = sorted(losses.policies, key=lambda s: (not losses.styles[s].is_oracle, s))
    for place, spec in enumerate(order):
        rows = losses.rows.loc[spec]
        style = line_style(losses.styles[spec], theme)
        # What is 0 has no place on the axis: it is below it.
        axes.plot(rows["bytes"], rows["loss"].clip(lower=low / 2), **style, zorder=2.5)
        bars = rows[["loss_low", "loss_high"]].clip(lower=low / 2).to_numpy().T
        x = np.stack([rows["bytes"], rows["bytes"]])
        # Aside, so that those of policies with equal bytes are all seen.
        shift = _SHIFT * (place - (len(order) - 1) / 2) / len(order)
        aside = ScaledTranslation(shift / 72, 0, figure.dpi_scale_trans)
        for line in axes.plot(x, bars, color=style["color"], lw=0.8, alpha=0.55, zorder=2.2):
            line.set_transform(axes.transData + aside)
        last = np.clip(rows["loss"].iloc[-1], low, high)
        ends[spec] = (min(rows["bytes"].iloc[-1], 1.06 * sizes.max()), float(last))
    axes.set_xlim(sizes.min() / 1.06, 1.06 * sizes.max())
    axes.set_ylim(low, high)
    _tick(axes, sizes)
    axes.set_xlabel("cache (bytes per KV head)")
    axes.set_ylabel(losses.label)
    make_room(axes)
    name_lines(axes, losses.styles, ends, names, theme)
    return figure


def _tick(axes: Axes, sizes: pd.Series) -> None:
    """Plain numbers on both axes, at 1, 2 and 5 of every power of ten where these are few."""
    x = _rounds(sizes.min() / 1.05, sizes.max() * 1.05, most=5)
    y = _rounds(*axes.get_ylim(), most=7)
    axes.set_xticks(x, [f"{tick:,.0f}" for tick in x])
    axes.set_yticks(y, [f"{tick:g}" for tick in y])
    axes.minorticks_off()


def _rounds(low: float, high: float, most: int) -> list[float]:
    """Round numbers between two, at most so many, in steps of about one factor."""
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for steps in (_STEPS, _STEPS[:1]):
        found = [step * 10.0**power for power in powers for step in steps]
        found = [tick for tick in found if low <= tick <= high]
        if 2 <= len(found) <= most:
            return found
    if len(found) > most:
        return found[:: -(-len(found) // most)]
    digits = 1 - int(np.floor(np.log10(low)))  # within a factor of two or so
    ends = [float(np.format_float_positional(x, 2, fractional=False)) for x in (low, high)]
    return sorted({x for x in ends if low <= x <= high} | {round((low + high) / 2, digits)})


def _explore(losses: _Losses, comparison: Comparison) -> dict:
    """The lines for plotly; `comparison` has the colours."""
    data = []
    for spec in losses.policies:
        rows = losses.rows.loc[spec]
        at = explore.numbers(rows["bytes"])
        rows = rows.assign(loss=rows["loss"].where(rows["loss"] > 0))
        data.append(explore.line_of(comparison, losses.styles[spec], (at, "bytes"), "loss", rows))
    low, high = losses.ends
    across = {"title": {"text": "cache (bytes per KV head)"}, "type": "log"}
    ends = np.log10([low, high]).tolist()
    along = {"title": {"text": losses.label}, "type": "log", "range": ends}
    layout = {"xaxis": across, "yaxis": along, "height": max(460, 21 * len(data) + 90)}
    return {"data": data, "layout": layout}
