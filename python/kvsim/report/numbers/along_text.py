"""Bytes per step along a text. The table `fetch` has a mean, a percentile and a maximum of the
steps, and not the steps; this counts again, on longer and longer beginnings of the text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ...errors import KvsimError
from ...trace import Trace, Unit
from ...verbs.fetch import fetch
from .attention import TraceError
from .fetches import MIN, Fetches

# What these choose at a step depends on nothing later. `pq` and `magicpig` read all keys of a
# prompt, or of the text, before they choose, and selectors of the user's are not known here.
CAUSAL = ("topk", "top-p", "quest", "sparq")
_MOST_STRETCHES = 16
_FEWEST_STEPS = 8  # of a stretch


@dataclass(frozen=True)
class Stretches:
    """Bytes per step of one KV head in stretches of a text, per selector and replacement."""

    sequence: str
    layer: int
    kv_head: int
    resident: int  # tokens
    ends: np.ndarray  # [stretches + 1]: where they begin, and the last one ends
    rates: dict[tuple[str, str], np.ndarray]  # bytes per step, by selector and replacement


def busiest(fetches: Fetches) -> pd.DataFrame:
    """The rows of the unit that fetches the most, all selectors added up, at the least size that
    all have; of causal selectors and of replacements that do not see the future. May be empty."""
    rows = fetches.rows
    is_causal = rows["select"].str.partition(":")[0].isin(CAUSAL)
    rows = rows[is_causal & (rows["replace"] != MIN)]
    sizes = rows.groupby("resident")["select"].nunique()
    if sizes.empty:
        return rows
    rows = rows[rows["resident"] == sizes.index[sizes == sizes.max()][0]]
    unit = ["sequence", "layer", "kv_head"]
    sums = rows.groupby(unit)["fetched_bytes_mean"].sum()
    sequence, layer, kv_head = sums.idxmax()
    is_here = (rows["sequence"] == sequence) & (rows["layer"] == layer)
    return rows[is_here & (rows["kv_head"] == kv_head)]


def stretches(rows: pd.DataFrame, path: Path, mode: str) -> Stretches:
    """Counts the rows of `busiest` again on beginnings of their text, from the trace.

    What is fetched up to a step depends on nothing after it, so the difference of two beginnings
    is what is fetched between their ends. Raises TraceError if the trace cannot be read, or if the
    whole text has other fetches than its rows.
    """
    one = rows.iloc[0]
    sequence, layer, kv_head = one["sequence"], int(one["layer"]), int(one["kv_head"])
    resident = int(one["resident"])
    try:
        unit = Trace(path).unit(sequence, layer, kv_head)
    except KvsimError as error:
        raise TraceError(f"{path} has no such head: {error}") from error
    total, first = unit.num_tokens, unit.num_tokens - int(one["steps"])
    count = max(1, min(_MOST_STRETCHES, (total - first) // _FEWEST_STEPS))
    ends = np.linspace(first, total, count + 1).round().astype(int)
    pairs = list(zip(rows["select"], rows["replace"]))
    misses = {pair: np.zeros(count + 1) for pair in pairs}
    for place, end in enumerate(ends):
        if end <= max(resident, first):
            continue  # everything fits, or nothing was chosen
        frame = fetch(
            _beginning(unit, int(end), mode), sorted(set(rows["select"])), resident,
            sorted(set(rows["replace"])), mode, threads=1, seed=int(one["seed"]),
        )  # fmt: skip
        for select, replacement, missed in zip(frame["select"], frame["replace"], frame["misses"]):
            if (select, replacement) in misses:
                misses[select, replacement][place] = missed
    found = {}
    for row, pair in zip(rows.to_dict("records"), pairs):
        if misses[pair][-1] != row["misses"]:
            raise TraceError(f"{pair[0]} fetches other pages of {path} now than its row says")
        of_page = row["fetched_bytes_mean"] * row["steps"] / max(row["misses"], 1)
        found[pair] = of_page * np.diff(misses[pair]) / np.diff(ends)
    return Stretches(sequence, layer, kv_head, resident, ends, found)


def _beginning(unit: Unit, end: int, mode: str) -> Trace:
    """The first tokens of a unit, as a trace in memory."""
    # A stream has no prompt, and that of the trace may be longer than the beginning.
    prompt = 0 if mode == "stream" else unit.prompt_length
    selected = None if unit.selected is None else unit.selected[:end]
    return Trace.from_arrays(
        unit.query[:, :end], unit.key[None, :end], unit.value[None, :end], scale=unit.scale,
        prompt_length=prompt, logit_softcap=unit.logit_softcap,
        sliding_window=unit.sliding_window, attention_chunk=unit.attention_chunk,
        sink_logit=unit.sink_logit, selected=selected,
    )  # fmt: skip
