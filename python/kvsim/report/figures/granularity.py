"""Draws what pages and shared heads cost, and what each policy loses in addition."""

from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from ..._engine import Protocol
from ..numbers.averages import OPTIMAL
from ..numbers.frames import Comparison
from ..numbers.granularity import is_coarse, optimum_like, regrets, token_mode
from ..numbers.intervals import span
from ..numbers.protocol import options_of
from ..style import Shape, Theme
from . import Drawing, Missing, Plan, Table

NAME, TITLE = "granularity", "The price of granularity"


def plan(comparison: Comparison) -> list[Plan]:
    if not is_coarse(comparison):
        return []
    found = regrets(comparison)
    if found.empty:
        return [_missing(comparison)]
    found = found.sort_values("own", ascending=False, kind="stable")
    caption = (
        "How much attention recall is lost against the optimum that evicts token by token, in each "
        "head for itself. Grey: what the optimum of the same pages and shared heads loses, the "
        "price of the granularity. In colour: what the policy loses in addition, its own regret."
    )
    samples = comparison.intervals.samples
    if samples.count > 1:
        caption += " Bars: the 95% interval of the policy's own regret, the paired bootstrap over "
        caption += f"{samples.count} {samples.sampled}."
    alt = f"Price and own regret at {comparison.budget_name(comparison.point)}: " + ", ".join(
        f"{comparison.styles[spec].label} {row.price:.3f} and {row.own:.3f} "
        f"{span(row.own_low, row.own_high, 3)}".strip()
        for spec, row in found.iterrows()
    )
    table = Table(
        f"Recall lost at {comparison.budget_name(comparison.point)}, {comparison.mode}",
        ("policy", "price of granularity", "own regret"),
        tuple(
            (
                (comparison.styles[spec].label, ""),
                (f"{row.price:.4f}", span(row.price_low, row.price_high, 4)),
                (f"{row.own:.4f}", span(row.own_low, row.own_high, 4)),
            )
            for spec, row in found.iterrows()
        ),
    )
    draw = partial(_draw, comparison, found)
    return [Drawing(NAME, TITLE, caption, alt, draw, tables=(table,))]


def _missing(comparison: Comparison) -> Missing:
    budgets = comparison.rows.loc[comparison.rows["point"] == comparison.point, "budget"]
    sweep = f"kvsim sweep {comparison.trace} --budgets {budgets.min()} --seed {comparison.seed}"
    sweep += f" -o {comparison.results.path}"
    optima = ";".join(sorted({OPTIMAL, *map(optimum_like, comparison.policies)}))
    modes = dict.fromkeys([token_mode(comparison.mode), comparison.mode])
    commands = [
        f"{sweep} --policies '{optima}'{options_of(protocol)}"
        for protocol in map(Protocol.of_name, modes)
    ]
    why = "It needs rows of the optimum that evicts token by token, and of the one of the same "
    why += "pages and shared heads, at the same number of tokens."
    return Missing(NAME, TITLE, why, "; ".join(commands))


def _draw(comparison: Comparison, found: pd.DataFrame, theme: Theme, shape: Shape) -> Figure:
    figure = Figure(figsize=(shape.width, 0.24 * len(found) + 0.8), layout="constrained")
    axes = figure.add_subplot()
    for place, (spec, row) in enumerate(found.iterrows()):
        style = comparison.styles[spec]
        axes.barh(place, row.price, color=theme.muted, height=0.6)
        axes.barh(place, row.own, left=row.price, color=style.color(theme), height=0.6)
        ends = [row.price + row.own_low, row.price + row.own_high]
        axes.plot(ends, [place] * 2, color=theme.ink, lw=0.9, solid_capstyle="butt")
    labels = [comparison.styles[spec].label for spec in found.index]
    axes.set_yticks(range(len(found)), labels)
    axes.set_xlabel("recall lost: price of granularity, then own regret")
    axes.tick_params(axis="y", length=0)
    return figure
