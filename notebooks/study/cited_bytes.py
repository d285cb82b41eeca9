"""Prints what the pages say of equal bytes, from tables/bytes.csv.

The tables of notebooks/study/README.md and analysis/baselines.md have these cells.
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from kvsim.closed_loop.prediction import interval_over_texts
from kvsim.report.style.labels import labels

ROWS = Path(__file__).with_name("tables") / "bytes.csv"
SIZES = ["16KiB", "32KiB", "64KiB"]
FEWEST = 5  # texts of which a mean is shown
# What a paper's method is held against: its policy, and what it is to lose less than.
CLAIMS = {
    "KIVI": ("h2o+kivi bits=2", "h2o"),
    "KIVI, 4 bits": ("h2o+kivi bits=4", "h2o"),
    "KIVI, recent tokens": ("window+kivi", "window"),
    "KIVI, keys per channel": ("h2o+kivi bits=4", "h2o+quant"),
    "KVQuant": ("h2o+kvquant", "h2o"),
    "FlexGen": ("h2o+quant", "h2o"),
    "TurboQuant": ("h2o+turboquant", "h2o"),
    "MiKV": ("h2o+mikv", "h2o"),
    "CaM": ("h2o+merge into=cam", "h2o"),
    "D2O": ("h2o+merge into=nearest", "h2o"),
    "Attention matching": ("h2o+merge into=attention", "h2o"),
    "`+rest`": ("h2o+rest", "h2o"),
    "OBCache": ("obcache", "h2o"),
    "VATP": ("vatp", "h2o"),
    "CriticalKV, H2O": ("h2o+critical", "h2o"),
    "CriticalKV, SnapKV": ("snapkv+critical", "snapkv"),
    "ChunkKV": ("snapkv+chunk", "snapkv"),
    "CAKE": ("snapkv@cake", "snapkv"),
    "Ada-KV": ("snapkv@adaptive", "snapkv"),
    "PyramidKV": ("snapkv@pyramid", "snapkv"),
    "R-KV": ("r-kv", "snapkv"),
    "TriAttention": ("triattention", "snapkv"),
    "SnapKV": ("snapkv", "h2o"),
}


def rows(loop):
    every = pd.read_csv(ROWS)
    every = every.assign(name=every["policy"].map(labels(list(every["policy"].unique()))))
    return every[every["loop"] == loop]


def quoted(values, digits=2):
    """A mean with its interval, as the pages write it."""
    mean, low, high = (f"{number:.{digits}f}" for number in values)
    return re.sub(r"\b0\.", ".", f"{mean} [{low}, {high}]")


def loss(of, name, size):
    """The mean KL over texts with its 95% interval, in nats per token; empty: of too few texts."""
    values = of[(of["name"] == name) & (of["budget_request"] == size)]["kl_mean"].to_numpy()
    return quoted([values.mean(), *interval_over_texts(values)]) if len(values) >= FEWEST else ""


def ratio(of, name, other, size, other_size=None):
    """The KL of one policy as a multiple of another's, on the same texts, at the same size unless
    another is named: the geometric mean over texts and its 95% interval. None: of too few texts."""

    def losses(policy, at):
        found = of[(of["name"] == policy) & (of["budget_request"] == at)]
        return found.set_index("sequence")["kl_mean"]

    logs = np.log(losses(name, size) / losses(other, other_size or size)).dropna()
    if len(logs) < FEWEST:
        return None
    return np.exp([logs.mean(), *interval_over_texts(logs.to_numpy())])


def verdict(interval):
    """Whether the first policy of a ratio loses less."""
    _, low, high = interval
    return "holds" if high < 1 else "reversed" if low > 1 else "not distinguishable"


def claim(of, key, size):
    """The cell of a claim at a size: the ratio and its verdict; empty: of too few texts."""
    found = ratio(of, *CLAIMS[key], size)
    return "" if found is None else f"{quoted(found)}, {verdict(found)}"


def in_half_the_size():
    """KIVI's 4 bits at 32 KiB against H2O at 64 KiB."""
    return quoted(ratio(rows("adaptive"), "h2o+kivi bits=4", "h2o", "32KiB", "64KiB"))


def taken(of, name, size):
    """The KiB that a KV head's cache takes, the mean over heads and texts."""
    values = of[(of["name"] == name) & (of["budget_request"] == size)]["cache_bytes"]
    return f"{values.mean() / 1024:.0f}"


def main():
    for loop in ("adaptive", "imposed"):
        of = rows(loop)
        print(f"\n{loop} loop:", of.groupby("budget_request")["sequence"].nunique().to_dict())
        for name in of.groupby("name")["kl_mean"].mean().sort_values().index:
            cells = [loss(of, name, size) for size in SIZES]
            print(f"| `{name.replace(' ', ':')}` | {' | '.join(cells)} |", taken(of, name, "32KiB"))
        for key, (name, other) in CLAIMS.items():
            cells = [claim(of, key, size) for size in SIZES]
            if any(cells):
                print(f"| {key} | `{name}` / `{other}` | {' | '.join(cells)} |")
    print(f"\nKIVI in half the size: {in_half_the_size()}")


if __name__ == "__main__":
    main()
