"""Writes the table of budgets in bytes: python summarise_bytes.py FOLDER

FOLDER has bytes.sqlite, as `run` leaves it.
"""

import re
import sys
from pathlib import Path

import pandas as pd

import kvsim

TABLE = Path(__file__).with_name("tables") / "bytes.csv"
KEY = ["sequence", "loop", "policy", "budget_request"]
OF_MODEL = ["kl_mean", "delta_nll", "top1_agreement"]
OF_MODEL += ["answers", "answers_right_full", "answers_right"]


def bytes_of_heads(results):
    """One row per text, loop, policy and budget: what the running model lost, and the bytes that
    its cache took per KV head, the mean over all heads."""
    heads = results.replay[["layer", "kv_head"]].drop_duplicates()
    rows = results.closed_loop.assign(cache_bytes=lambda all: all.cache_bytes / len(heads))
    errors = results.layer_error.groupby(["sequence", "policy", "budget"]).projected_error.sum()
    rows = rows.merge(errors.reset_index(), how="left", on=["sequence", "policy", "budget"])
    rows = rows[[*KEY, "budget", "cache_bytes", *OF_MODEL, "projected_error"]]
    return rows.assign(policy=rows["policy"].map(without_file)).sort_values(KEY)


def without_file(policy):
    """A spec without the path and the hash of its file, which are this folder's alone."""
    return re.sub(r"file=[^,]*,sha256=[^,]*", "file=,sha256=", policy)


def main():
    rows = bytes_of_heads(kvsim.load(Path(sys.argv[1]) / "bytes.sqlite"))
    if TABLE.exists():
        others = pd.read_csv(TABLE)
        is_new = pd.MultiIndex.from_frame(others[KEY]).isin(pd.MultiIndex.from_frame(rows[KEY]))
        rows = pd.concat([others[~is_new], rows]).sort_values(KEY)
    rows.to_csv(TABLE, index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
