"""Draws the attention map of one head, tinted where the cache held the tokens."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ...results.points import bytes_of
from ..numbers.attention import (
    Head,
    Map,
    TraceError,
    cells_of,
    find_trace,
    kept_cells,
    read_head,
    retained,
)
from ..numbers.choice import ChoiceError
from ..numbers.frames import Comparison
from ..numbers.protocol import options_of
from ..style import Shape, Theme, ink_map, mix
from . import Drawing, Missing, Plan, bar_size, bare

NAME, TITLE = "attention-map", "Attention map"
_MOST_CELLS = 512
_MOST_POLICIES = 3
_LEAST = 1e-3  # the map shows attention below it as blank
_TINT = {"light": 0.32, "dark": 0.5}
_REPLAY_KEY = ["policy", "budget"]
_NEEDED = ["layer", "query_head", *_REPLAY_KEY, "mode", "seed", "token", "evicted_after"]
_NEEDED += ["future_mass"]


@dataclass(frozen=True)
class _Panel:
    spec: str
    budget: int
    evicted_after: np.ndarray  # [n], the step; n: never evicted
    recall: float


def plan(comparison: Comparison) -> list[Plan]:
    rows = comparison.analysis("evictions", _NEEDED)
    if rows is not None:
        rows = rows[(rows["mode"] == comparison.protocol.mode) & (rows["seed"] == comparison.seed)]
        rows = rows[rows["policy"].isin(comparison.policies)]
    _require_chosen(comparison, rows)
    if not comparison.protocol.evicts_every_step:
        why = "kvsim analyze records evictions only of caches that evict at every step; these rows "
        why += "are of another protocol."
        return [Missing(NAME, TITLE, why, "")]
    if rows is None or rows.empty:
        why = "The file has no table evictions for these policies."
        return [Missing(NAME, TITLE, why, _command(comparison))]
    choice = comparison.choice
    for column, wanted in (("layer", choice.layer), ("query_head", choice.query_head)):
        rows = rows if wanted is None else rows[rows[column] == wanted]
    rows = _at_budget(rows, comparison)
    sequence, layer, query_head = _telling_head(rows)
    try:
        named = choice.trace or comparison.trace
        path = find_trace(named, comparison.results.path.parent, comparison.trace_id)
        head = read_head(path, sequence, layer, query_head)
    except TraceError as error:
        why = f"It is computed from the trace: {error}."
        again = f"kvsim report {comparison.results.path} -o DIR --trace TRACE"
        return [Missing(NAME, TITLE, why, again)]
    own = rows[rows["sequence"] == sequence]
    own = own[(own["layer"] == layer) & (own["query_head"] == query_head)]
    order = _best_first(comparison, own)
    own = own[own["policy"].isin(order[:_MOST_POLICIES])]
    panels = [_panel(comparison, head, key, group) for key, group in own.groupby(_REPLAY_KEY)]
    panels = sorted(panels, key=lambda panel: -panel.recall)
    kept = ", ".join(
        f"{comparison.styles[panel.spec].label} keeps {panel.recall:.1%} of the attention at "
        f"{panel.budget} tokens"
        for panel in panels
    )
    caption = (
        f"Sequence {sequence}, layer {layer}, query head {query_head}: ink shows the full "
        "attention, step by token. The tint shows the tokens in the cache; ink without tint shows "
        "lost attention."
    )
    if others := [comparison.styles[spec].label for spec in order[_MOST_POLICIES:]]:
        caption += f" Of the policies, the {_MOST_POLICIES} with the most attention over all heads "
        caption += f"are drawn; left out: {', '.join(others)}."
    draw = partial(_draw, comparison, head.prompt_length, cells_of(head, _MOST_CELLS), panels)
    return [Drawing(NAME, TITLE, f"{caption} {kept[0].upper()}{kept[1:]}.", kept, draw)]


def _require_chosen(comparison: Comparison, rows: pd.DataFrame | None) -> None:
    """Raises ChoiceError if the chosen head or trace does not exist.

    Without a table of evictions the file does not know query heads.
    """
    choice, file = comparison.choice, comparison.results.path
    if choice.trace is not None:
        try:
            find_trace(choice.trace, file.parent, comparison.trace_id)
        except TraceError as error:
            raise ChoiceError(f"--trace: {error}") from error
    rows = comparison.rows if rows is None or rows.empty else rows
    for column, wanted in (("layer", choice.layer), ("query_head", choice.query_head)):
        if wanted is None or column not in rows:
            continue
        there = sorted(rows[column].unique())
        if wanted not in there:
            option = "--" + column.replace("_", "-")
            found = ", ".join(map(str, there))
            raise ChoiceError(f"{option}: {file} has no {wanted} to map; it has {found}")
        rows = rows[rows[column] == wanted]


def _best_first(comparison: Comparison, rows: pd.DataFrame) -> list[str]:
    """The policies of the rows, ordered by their recall over all heads, highest first."""
    recall = comparison.at(comparison.point)["attention_recall"]
    found = recall.reindex(rows["policy"].unique())
    return list(found.sort_values(ascending=False, kind="stable").index)


def _command(comparison: Comparison) -> str:
    """The command that writes evictions of two policies. Empty if no policy evicts."""
    holding = comparison.at(comparison.point).query("holds").index
    rivals = sorted(holding, key=lambda spec: spec in comparison.oracles)[:2]
    if not rivals:
        return ""
    return (
        f"kvsim analyze {comparison.trace} --what evictions --policies '{';'.join(rivals)}' "
        f"--budgets {comparison.point}{options_of(comparison.protocol)} "
        f"-o {comparison.results.path}"
    )


def _at_budget(rows: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
    """The rows of each sequence at the budget nearest to the chosen one. A size is other tokens for
    each policy."""
    if bytes_of(comparison.point) is None:
        tokens, alike = comparison.points[comparison.point], [rows["sequence"]]
    else:
        chosen = comparison.rows[comparison.rows["point"] == comparison.point]
        tokens = rows["policy"].map(chosen.groupby("policy")["budget"].mean())
        alike = [rows["sequence"], rows["policy"]]
    distance = (rows["budget"] - tokens).abs()
    return rows[distance == distance.groupby(alike).transform("min")]


def _telling_head(rows: pd.DataFrame) -> tuple[str, int, int]:
    """The head in which the policies' losses differ most. With one policy, its largest loss."""
    head = ["sequence", "layer", "query_head"]
    lost = rows.groupby([*head, "policy"])["future_mass"].sum().unstack("policy")
    differ = lost.max(axis=1) - (lost.min(axis=1) if lost.shape[1] > 1 else 0)
    sequence, layer, query_head = differ.idxmax()
    return sequence, int(layer), int(query_head)


def _panel(comparison: Comparison, head: Head, key: tuple, rows: pd.DataFrame) -> _Panel:
    evicted_after = np.full(len(head.key), len(head.key))
    evicted_after[rows["token"].to_numpy()] = rows["evicted_after"].to_numpy()
    first = comparison.protocol.first_measured(head.prompt_length)
    return _Panel(key[0], int(key[1]), evicted_after, retained(head, evicted_after, first))


def _draw(
    comparison: Comparison,
    prompt_length: int,
    cells: Map,
    panels: list[_Panel],
    theme: Theme,
    shape: Shape,
) -> Figure:
    norm = LogNorm(_LEAST, 1, clip=True)
    ink = np.asarray(norm(np.maximum(cells.attention, _LEAST)))[..., None]
    columns = 1 if shape.narrow else len(panels)
    rows = -(-len(panels) // columns)
    side = min((shape.width - 0.9) / columns, 3.4)
    width = shape.width if shape.narrow or columns > 1 else side + 1.6
    figure = Figure(figsize=(width, rows * (side + 0.5) + 0.75), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    n = cells.num_tokens
    for axes, panel in zip(grid.flat, panels):
        style = comparison.styles[panel.spec]
        kept = kept_cells(panel.evicted_after, cells.width) * cells.visible
        tint = np.array(to_rgb(mix(theme.paper, style.color(theme), _TINT[theme.name])))
        paper = np.array(to_rgb(theme.paper))
        ground = paper + (tint - paper) * kept[..., None]
        image = ground + (np.array(to_rgb(theme.ink)) - ground) * ink
        axes.imshow(np.clip(image, 0, 1), extent=(0, n, n, 0), interpolation="antialiased")
        bare(axes)
        axes.plot([0, 0, n, 0], [0, n, n, 0], color=theme.muted, lw=0.6)
        axes.set_title(
            f"{style.label}: {panel.recall:.1%} at {panel.budget} tokens",
            loc="left",
        )
        held = Patch(facecolor=tint, edgecolor="none", label="in the cache")
        axes.legend(handles=[held], loc="upper right", frameon=False, fontsize=7.5)
        axes.set_xlabel("token (index)")
        if axes.get_subplotspec().is_first_col():
            axes.set_ylabel("step (index)")
        if comparison.protocol.mode == "prefill":
            axes.axhline(prompt_length, color=theme.muted, lw=0.8, ls=(0, (3, 2)))
    bar = figure.colorbar(
        ScalarMappable(norm, ink_map(theme)),
        ax=grid,
        location="top",
        label="full attention (share of a step, 0–1)",
        aspect=40,
        extend="min",
        format="%g",
        **bar_size(figure, shape),
    )
    bar.outline.set_edgecolor(theme.muted)
    bar.ax.grid(False)
    return figure
