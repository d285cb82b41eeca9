"""Loss against budget on held-out texts: what was found, the defaults, the optimum."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import KvsimError
from ..files.partial import written_whole
from .ranking import DEFAULT, FOUND, OPTIMUM

if TYPE_CHECKING:
    import pandas as pd

_NAMES = {
    "kl_mean": "KL (nats per token)",
    "predicted_kl": "predicted KL (nats per token)",
    "projected_error": "projected error",
    "output_error_sq": "squared output error",
    "attention_loss": "attention loss",
}
_ORDER = (FOUND, DEFAULT, OPTIMUM)
FOUND_COLOR = "#c2410c"


def draw(points: pd.DataFrame, loss: str, path: str | Path) -> Path:
    """Writes the figure in the format that its suffix names, as .png or .pdf."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    from ..report.style import LIGHT, WIDE, settings, styles

    path = Path(path)
    looks = styles(
        points["policy"].unique(), oracles=points["policy"][points["role"] == OPTIMUM].unique()
    )
    with rc_context(settings(LIGHT)):
        # Without pyplot, whose backend is the caller's.
        figure = Figure(figsize=(WIDE.width, WIDE.height), layout="constrained")
        axis = figure.subplots()
        groups = sorted(
            points.groupby("policy"), key=lambda each: _ORDER.index(each[1]["role"].iloc[0])
        )
        for policy, of in groups:
            look = looks[policy]
            line, name = look.line_in(LIGHT), look.label
            if of["role"].iloc[0] == FOUND:
                line, name = {"color": FOUND_COLOR, "marker": "o", "lw": 2.2}, f"found: {name}"
            errors = (of["loss"] - of["low"], of["high"] - of["loss"])
            whiskers = None if of["low"].isna().any() else errors
            axis.errorbar(
                of["tokens"], of["loss"], whiskers, elinewidth=1, capsize=2, label=name, **line
            )
        axis.set(xlabel="budget (tokens per KV head)", ylabel=_NAMES[loss])
        if (points["loss"] > 0).all():
            axis.set_yscale("log")
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.yaxis.set_minor_formatter(NullFormatter())
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(loc="outside right center", frameon=False)
        try:
            with written_whole(path) as partial:
                figure.savefig(partial, dpi=160, format=path.suffix[1:] or "png")
        except (OSError, ValueError) as error:
            raise KvsimError(f"{path}: the figure cannot be written: {error}") from error
    return path
