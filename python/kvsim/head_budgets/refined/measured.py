"""What the running model loses where one group of layers evicts and the others keep everything."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ...errors import KvsimError, UsageError
from ...files.head_tables import npy_of
from ...files.partial import written_whole
from ...files.paths import exists
from ..curves import PARTS, between
from .groups import Group, Groups

Evaluate = Callable[[Sequence[str], Sequence[str]], pd.DataFrame]


class Tables:
    """Files for @file. A name follows from what the file holds, so that it never changes."""

    def __init__(self, folder: Path):
        self._folder = folder

    def spec(self, policy: str, name: str, values: np.ndarray) -> str:
        """The policy at the budgets of these values, which are written where they are not there."""
        data = npy_of(values)
        digest = hashlib.sha256(data).hexdigest()
        path = self._folder / f"{name}-{digest[:12]}.npy"
        if not exists(path):
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                with written_whole(path) as partial:
                    partial.write_bytes(data)
            except OSError as error:
                raise KvsimError(f"output: {path}: {error.strerror}") from error
        return f"{policy}@file:{path}"


def measured(
    groups: Groups, shares: Sequence[float], policy: str, tables: Tables, evaluate: Evaluate
) -> pd.DataFrame:
    """A row per text, group and share: `group`, `asked` and `share`, what the group really kept,
    `kl`. What all heads lose at the length of the prompt, nothing in stream mode, is taken off."""
    found = []
    base: pd.Series | None = None
    for asked in sorted(shares):
        for size in sorted({group.heads for group in groups}):
            alike = [(i, group) for i, group in enumerate(groups) if group.heads == size]
            specs = [
                tables.spec(policy, f"{group.name}-{asked:g}", groups.alone(group, asked))
                for _, group in alike
            ]
            mean = 1 - size * (1 - asked) / groups.heads
            rows = evaluate(specs, [f"{100 * mean:.6f}%"])
            if base is None:
                base = _base(rows, policy, evaluate)
            for (index, group), spec in zip(alike, specs):
                own = rows[rows.policy.str.contains(Path(spec).stem, regex=False)]
                share = _kept_share(own, group, groups.heads, asked, mean)
                kl = own.kl_mean - own.sequence.map(base)
                found.append(own[["sequence"]].assign(group=index, asked=asked, share=share, kl=kl))
    return pd.concat(found, ignore_index=True)


def _base(rows: pd.DataFrame, policy: str, evaluate: Evaluate) -> pd.Series:
    if not rows["mode"].iloc[0].startswith("prefill"):
        return pd.Series(0.0, rows.sequence.unique())
    return evaluate([policy], ["100%"]).set_index("sequence").kl_mean


def _kept_share(
    rows: pd.DataFrame, group: Group, heads: int, asked: float, mean: float
) -> pd.Series:
    """The budget is whole tokens. What that is too much goes to the group where the others are
    full, in stream mode; else all have more or less in proportion."""
    is_stream = ~rows["mode"].str.startswith("prefill")
    length = rows.steps.where(is_stream, rows.prompt_length)
    more = (rows.budget / length - mean) * heads / group.heads
    scaled = asked * rows.budget / (length * mean)
    return (asked + more).where(is_stream & (more > 0), scaled)


def curves_of(found: pd.DataFrame, groups: Groups) -> np.ndarray:
    """What each group loses with 0, 1, .. of PARTS of its tokens, mean over texts.

    NaN below the smallest share of any text; with all of them nothing.
    """
    grid = np.arange(PARTS + 1) / PARTS
    curves = []
    for index in range(len(groups)):
        of_texts = []
        for _, rows in found[found.group == index].sort_values("share").groupby("sequence"):
            shares, losses = np.append(rows.share, 1.0), np.append(rows.kl, 0.0)
            of_texts.append(between(grid, shares, losses))
        curves.append(np.mean(of_texts, axis=0))
    return np.array(curves)


def checked_shares(shares: object) -> list[float]:
    """The shares as numbers. Raises UsageError for what is none."""
    try:
        numbers = [float(share) for share in shares]
    except (TypeError, ValueError):
        numbers = []
    if not numbers or len({*numbers}) < len(numbers) or not all(0 < each < 1 for each in numbers):
        raise UsageError(
            f"shares: expected different numbers above 0 and below 1, found {shares!r}"
        )
    return numbers
