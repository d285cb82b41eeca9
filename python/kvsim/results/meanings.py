"""What the columns of a frame mean, and what a comparison says, for a terminal and a notebook."""

from __future__ import annotations

from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING

from ..bootstrap import FEWEST_SAMPLES
from ..errors import UsageError
from ..errors.terminal import printable
from .columns import sign, tables

if TYPE_CHECKING:
    import pandas as pd

_WIDTH = 100


def about(frame: pd.DataFrame) -> About:
    """Says what a row and the columns of a frame are; of `kvsim.compare`, also the verdict.

    Parameters
    ----------
    frame : DataFrame
        Of `kvsim.sweep`, `kvsim.compare`, `kvsim.load(...).TABLE` or another function of this
        package, whose `attrs` have the meanings. `head`, `query` and the like keep them; `groupby`
        and `merge` may not.

    Returns
    -------
    About
        What is shown: aligned lines in a terminal, tables in a notebook.

    Raises
    ------
    UsageError
        For anything else, as a frame whose `attrs` are gone.

    Examples
    --------
    >>> kvsim.about(kvsim.load("results.sqlite").replay)
    >>> kvsim.about(kvsim.compare("results.sqlite", "h2o", "window"))
    """
    attrs = getattr(frame, "attrs", {})
    if not isinstance(attrs.get("about"), dict):
        found = f"{type(frame).__name__} without them"
        raise UsageError(
            "frame: expected a frame of this package, with the meaning of its columns in "
            f"attrs['about'], found a {found}; groupby and merge may drop attrs"
        )
    return About(frame)


class About:
    """The meaning of a frame, as `kvsim.about` gives it: printed, or shown by a notebook."""

    def __init__(self, frame: pd.DataFrame):
        attrs = frame.attrs
        meanings = attrs["about"]
        units = next(
            (each["units"] for each in tables().values() if each["shows"] == attrs.get("shows")), {}
        )
        self._row = str(attrs.get("shows") or "")
        self._source = str(attrs.get("source") or "")
        self._columns = [
            (str(name), units.get(name, ""), str(meanings.get(name, ""))) for name in frame.columns
        ]
        self._verdicts = verdicts(frame) if "compared" in attrs else []

    def __repr__(self) -> str:
        lines = [f"a row: {self._row}"] if self._row else []
        lines += [f"source: {self._source}"] if self._source else []
        lines += [f"  {verdict}" for verdict in self._verdicts]
        name_width, unit_width = (
            max((len(column[place]) for column in self._columns), default=0) for place in (0, 1)
        )
        for name, unit, meaning in self._columns:
            start = f"  {name:<{name_width}}  {unit:<{unit_width}}  "
            first, *others = wrap(meaning, max(_WIDTH - len(start), 30)) or [""]
            lines += [(start + first).rstrip(), *(" " * len(start) + other for other in others)]
        return "\n".join(printable(line) for line in lines)

    def _repr_html_(self) -> str:
        """Text and a table without scripts and styles of a page; all text is escaped."""
        left = ' style="text-align:left"'
        texts = [text for text in (self._row, self._source) if text]
        above = "".join(f"<p>{escape(text)}</p>" for text in texts)
        said = "".join(f"<li>{escape(verdict)}</li>" for verdict in self._verdicts)
        rows = "".join(
            f"<tr><td{left}><code>{escape(name)}</code></td><td{left}>{escape(unit)}</td>"
            f"<td{left}>{escape(meaning)}</td></tr>"
            for name, unit, meaning in self._columns
        )
        head = f"<tr><th{left}>column</th><th{left}>unit</th><th{left}>meaning</th></tr>"
        return (
            f"<div>{above}{f'<ul>{said}</ul>' if said else ''}"
            f"<table><thead>{head}</thead><tbody>{rows}</tbody></table></div>"
        )


def about_comparison(a: str, b: str | None, metric: str) -> dict[str, object]:
    """The attrs of a frame of `kvsim.compare`; `b` is None where a column says it."""
    other = "b" if b is None else b
    return {
        "shows": f"the difference of {metric}, {a} - {other}, at one budget and mode",
        "source": "",
        "about": {
            "b": "the policy that is compared with, its canonical spec",
            "budget": "tokens, or the share or size as it was asked for",
            "mode": "as in the table replay",
            "mode_b": "that of the other policy",
            "difference": f"mean of {metric} of {a} minus that of {other}",
            "low": "lower end of the 95% interval of the paired bootstrap",
            "high": "upper end of it",
            "samples": "pairs that were drawn from",
            "sampled": "what a pair is: sequences, or units where there are fewer than five",
        },
        "compared": {"a": a, "b": b, "metric": metric},
    }


def verdicts(frame: pd.DataFrame) -> list[str]:
    """Of each row of a frame of `kvsim.compare`, which policy is better, or that none is."""
    compared = frame.attrs["compared"]
    found = []
    for _, row in frame.iterrows():
        a, b = compared["a"], row["b"] if "b" in row else compared["b"]
        modes = f", mode {row['mode']}" + (f" and {row['mode_b']}" if "mode_b" in row else "")
        numbers = f"{row['difference']:+.4g} [{row['low']:+.4g}, {row['high']:+.4g}]"
        found.append(
            f"budget {row['budget']}{modes}: {compared['metric']} {numbers}: "
            f"{_verdict(row, a, b, compared['metric'])}"
        )
    return found


def _verdict(row: pd.Series, a: str, b: str, metric: str) -> str:
    if row["samples"] < FEWEST_SAMPLES:
        samples = f"{row['samples']} ({row['sampled']})"
        return f"{a} and {b} are not distinguished: fewer than {FEWEST_SAMPLES} samples, {samples}"
    if not (row["low"] > 0 or row["high"] < 0):
        return f"{a} and {b} are not distinguished: the interval contains 0"
    try:
        better = sign(metric)
    except StopIteration:  # no measure of a policy
        better = 0
    if better == 0:
        return f"{a} has {'more' if row['low'] > 0 else 'less'} than {b}"
    return f"{a} is {'better' if (row['low'] > 0) == (better > 0) else 'worse'} than {b}"
