"""One figure of the report as a matplotlib Figure, for notebooks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..results import Results, load
from .numbers.choice import Choice

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def show(
    results: str | Path | Results,
    figure: str | None = None,
    *,
    policies: str | Sequence[str] = (),
    budget: str | int | None = None,
    sequence: str | Sequence[str] = (),
    mode: str | None = None,
    seed: int | None = None,
    trace_id: str | None = None,
    layer: int | None = None,
    query_head: int | None = None,
    trace: str | Path | None = None,
    calibration: str | Path | None = None,
    theme: str = "light",
) -> Figure:
    """Draws a figure of the report of a result file, and writes no files.

    >>> kvsim.show("results.sqlite", "recall", policies=["h2o", "tova"])

    Parameters
    ----------
    results : path or Results
        A result file, or what `kvsim.load` gives.
    figure : str, optional
        The name of its file in the report, such as ``"recall"``; the first one, which is the
        overview of a sweep, where none is named.
    policies : str or sequence of str, optional
        Those to show, as for `kvsim report`; all where none is named.
    budget : str or int, optional
        Of overview, maps and tasks, as requested (``"20%"``) or in tokens; the largest one where
        none is named.
    sequence : str or sequence of str, optional
        The texts to show; all where none is named.
    mode : str, optional
        Of the rows; that of most rows where none is named.
    seed : int, optional
        Of the rows; that of most rows where none is named.
    trace_id : str, optional
        The first characters of the trace's; that of most rows where none is named.
    layer, query_head : int, optional
        Of the attention map.
    trace, calibration : path, optional
        Where the trace is now; the result file that weighs the errors of layers.
    theme : {"light", "dark"}
        The colours.

    Returns
    -------
    matplotlib.figure.Figure
        With the numbers that the report draws. A notebook shows it once, as the value of a cell.

    Raises
    ------
    UsageError
        For a figure that the file does not have; the message names those that it has.
    KvsimError
        For a file without what was chosen, as `kvsim report`.
    """
    if not isinstance(results, (str, os.PathLike, Results)):
        raise UsageError(
            f"results: expected a result file or what kvsim.load gives, found a "
            f"{type(results).__name__}; kvsim.sweep(..., output=FILE) writes a file"
        )
    if theme not in ("light", "dark"):
        raise UsageError(f"theme: expected light or dark, found {theme!r}")
    choice = Choice(
        trace_id=trace_id,
        sequences=_listed(sequence),
        mode=mode,
        seed=seed,
        budget=None if budget is None else str(budget),
        policies=_listed(policies),
        layer=layer,
        query_head=query_head,
        trace=None if trace is None else os.fspath(trace),
        calibration=None if calibration is None else os.fspath(calibration),
    )
    opened = results if isinstance(results, Results) else load(results)
    return _drawn(opened, figure, choice, theme)


def _drawn(results: Results, name: str | None, choice: Choice, theme: str) -> Figure:
    import matplotlib

    from .figures import Drawing, Missing
    from .page import chosen, plans
    from .shown_figure import ShownFigure
    from .style import DARK, LIGHT, WIDE, settings

    planned = plans(chosen(results, choice))
    drawings = {plan.name: plan for plan in planned if isinstance(plan, Drawing)}
    name = next(iter(drawings), None) if name is None else name
    if name not in drawings:
        there = ", ".join(drawings) or "none"
        lacking = {plan.name: plan for plan in planned if isinstance(plan, Missing)}.get(name)
        why = f" {lacking.why} {lacking.command}".rstrip() if lacking else ""
        raise UsageError(f"figure: {results.path} has no {name}; it has {there}.{why}")
    colors = DARK if theme == "dark" else LIGHT
    with matplotlib.rc_context(settings(colors)):
        figure = drawings[name].draw(colors, WIDE)
    figure.__class__ = ShownFigure
    return figure


def _listed(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
