"""What a search found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors.terminal import printable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Tuned:
    """The result of kvsim.tune.

    Attributes
    ----------
    policy : str
        The spec that was found.
    recipe : pathlib.Path or None
        The file that names it; None without `output`.
    loss : str
        What the losses of held-out texts are, `kl_mean` or the objective of the replay.
    objective : str
        What the search in open loop made small.
    ranked : pandas.DataFrame
        A row per spec that was tried: policy; role (found, default, optimum); stage, how far it
        came; open_loop_loss and imposed_loss, means over the texts of the search; held_out_loss
        with its 95% interval low..high over held-out texts; ratio, of that to the best default's,
        with ratio_low..ratio_high.
    points : pandas.DataFrame
        A row per spec and budget of the figure: policy, budget_request, tokens (mean over texts),
        loss, low, high, role.
    searched_on, held_out : tuple of str
        The names of the texts.
    tried : int
        How many different specs the search measured; several trials may be of one.
    """

    policy: str
    recipe: Path | None
    loss: str
    objective: str
    ranked: pd.DataFrame
    points: pd.DataFrame
    searched_on: tuple[str, ...]
    held_out: tuple[str, ...]
    tried: int

    def figure(self, path: str | Path) -> Path:
        """Draws loss against budget on the held-out texts into a file.

        Parameters
        ----------
        path : path
            The file, as .png or .pdf.

        Returns
        -------
        pathlib.Path
            The path of the file.

        Raises
        ------
        KvsimError
            For a file that cannot be written, or a suffix of no format.
        """
        from .figure import draw

        return draw(self.points, self.loss, path)

    def summary(self) -> str:
        """The found policy and the rows that were measured on held-out texts, for a terminal.

        Returns
        -------
        str
            Lines, the last one with its line end.
        """
        held = self.ranked[self.ranked["held_out_loss"].notna()]
        several = len(self.held_out) > 1
        texts = f"{len(self.held_out)} held-out text{'s, 95% intervals' if several else ''}"
        lines = [
            f"{self.tried} different spec{'' if self.tried == 1 else 's'} tried",
            f"{self.loss} on {texts}, and its ratio to that of the best default",
        ]
        for row in held.itertuples():
            loss = _interval(row.held_out_loss, row.low, row.high)
            ratio = _interval(row.ratio, row.ratio_low, row.ratio_high)
            lines.append(f"{loss}  {ratio}  {row.role:<7}  {row.policy}")
        return "\n".join(map(printable, [*lines, *self._hints(held)])) + "\n"

    def _hints(self, held: pd.DataFrame) -> list[str]:
        """A line where the search found less than it was compared with."""
        found = held.loc[held["policy"] == self.policy, "held_out_loss"]
        defaults = held[held["role"] == "default"]
        if found.empty or defaults.empty:
            return []
        best = defaults.loc[defaults["held_out_loss"].idxmin()]
        if not best["held_out_loss"] < found.iloc[0]:
            return []
        return [
            f"{best['policy']}, a default, loses less on held-out texts than {self.policy}, which "
            "was found: try more trials or more texts, or use the default"
        ]

    def __repr__(self) -> str:
        return f"kvsim.Tuned({self.policy!r}, {len(self.ranked)} specs)"


def _interval(value: float, low: float, high: float) -> str:
    """A single text has none."""
    ends = "" if math.isnan(low) else f" [{low:.4g}, {high:.4g}]"
    return f"{value:.4g}{ends}"
