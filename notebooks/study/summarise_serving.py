"""Writes the tables of pages, shared heads and two tiers: python summarise_serving.py FOLDER

FOLDER has pages.sqlite, selectors.sqlite and misses.sqlite, as `run` leaves them.
"""

import sys
from pathlib import Path

import pandas as pd

import kvsim

TABLES = Path(__file__).with_name("tables")
OF_MODEL = ["kl_mean", "delta_nll", "top1_agreement"]
OF_MODEL += ["answers", "answers_right_full", "answers_right"]
OF_CHOICE = ["attended_mean", "attention_recall", "summary_bytes"]
OF_DEVICE = ["resident", "hit_rate", "fetched_bytes_mean", "fetched_bytes_p95"]


def pages(results):
    """One row per text, policy and mode: what caches of pages and of shared heads lose."""
    key = ["sequence", "policy", "budget", "mode"]
    rows = results.closed_loop[[*key, *OF_MODEL, "cache_bytes"]]
    return rows.sort_values(key)


def selectors(results):
    """One row per text, selector, size of the device and replacement: means over KV heads, what
    the running model lost, and the projected error, the sum over layers."""
    key = ["sequence", "select"]
    fetched = with_every_point(results.fetch.rename(columns={"resident_request": "point"}))
    size = ["point", "replace"]
    rows = fetched.groupby([*key, *size])[[*OF_DEVICE, *OF_CHOICE]].mean().reset_index()
    lost = results.closed_loop.rename(columns={"policy": "select"})[[*key, *OF_MODEL]]
    errors = results.layer_error.rename(columns={"policy": "select"})
    errors = errors.groupby(key).projected_error.sum().reset_index()
    rows = rows.merge(lost, on=key, validate="many_to_one")
    rows = rows.merge(errors, on=key, validate="many_to_one")
    return rows.sort_values([*key, *size])


def misses(results):
    """One row per text, selector, size of the device and replacement: means over KV heads."""
    key = ["sequence", "select", "resident", "replace"]
    numbers = ["accesses", "misses", "hit_rate", "attention_recall"]
    return results.fetch.groupby(key)[numbers].mean().reset_index()


def with_every_point(rows):
    """The rows, and again those of a size that stands for two: of two shares of a text that come
    to one size, as the least that is enough for a step, the first alone has a row."""
    first, second = sorted(rows.point.unique(), key=lambda point: float(point.rstrip("%")))
    key = ["sequence", "layer", "kv_head", "select", "replace"]
    of_both = pd.MultiIndex.from_frame(rows.loc[rows.point == second, key])
    alone = rows[rows.point == first]
    alone = alone[~pd.MultiIndex.from_frame(alone[key]).isin(of_both)]
    return pd.concat([rows, alone.assign(point=second)])


def main():
    folder = Path(sys.argv[1])
    for table in (pages, selectors, misses):
        rows = table(kvsim.load(folder / f"{table.__name__}.sqlite"))
        rows.to_csv(TABLES / f"{table.__name__}.csv", index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
