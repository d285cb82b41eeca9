"""Draws what is lost against the bytes of a cache, loss-bytes.png, from tables/bytes.csv."""

from pathlib import Path

import numpy as np
from cited_bytes import FEWEST, SIZES, rows
from matplotlib import pyplot as plt
from matplotlib.ticker import NullFormatter, ScalarFormatter

from kvsim.closed_loop.prediction import interval_over_texts

FIGURE = Path(__file__).with_name("loss-bytes.png")
# Policies of few bits have the colour of their store, with the marker of it.
DRAWN = {
    "window": ("#8a8a8a", "o"),
    "h2o": ("#1f6fb4", "o"),
    "snapkv": ("#5aa7dc", "s"),
    "snapkv@cake": ("#123f6b", "D"),
    "h2o+quant": ("#b8860b", "^"),
    "h2o+kvquant": ("#d9541e", "v"),
    "h2o+kivi bits=4": ("#a3195b", "P"),
    "h2o+kivi bits=2": ("#d86ba3", "X"),
    "h2o+mikv": ("#2e8b57", "*"),
}


def draw(axis, of, name):
    color, marker = DRAWN[name]
    points = []
    for size in SIZES:
        at = of[(of["name"] == name) & (of["budget_request"] == size)]
        if len(at) < FEWEST:
            continue
        losses = at["kl_mean"].to_numpy()
        points.append((at["cache_bytes"].mean(), losses.mean(), *interval_over_texts(losses)))
    if not points:
        return
    sizes, means, lows, highs = np.array(points).T
    axis.errorbar(
        sizes / 1024, means, (means - lows, highs - means), color=color, marker=marker, lw=1.4,
        elinewidth=1, capsize=2, label=name.replace(" ", ":"),
    )  # fmt: skip


def main():
    of = rows("adaptive")
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    for name in DRAWN:
        draw(axis, of, name)
    axis.set(xscale="log", yscale="log")
    axis.set(xlabel="cache (KiB per KV head)", ylabel="KL (nats per token)")
    axis.set_xticks([16, 32, 64, 96])
    for scale in (axis.xaxis, axis.yaxis):
        scale.set_major_formatter(ScalarFormatter())
        scale.set_minor_formatter(NullFormatter())
    axis.set_yticks([0.01, 0.03, 0.1, 0.3, 1])
    axis.grid(color="#e6e9ec", lw=0.8)
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right center", frameon=False)
    figure.savefig(FIGURE, dpi=160)


if __name__ == "__main__":
    main()
