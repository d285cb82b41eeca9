"""Writes the study's tables from its result files: python summarise.py FOLDER

FOLDER has results.sqlite and analyses.sqlite, as `run` leaves them. Rows of the same text, policy
and budget are replaced, all others stay in the tables, so that texts and policies can be measured
one after the other. README.md says what the tables hold.
"""

import re
import sys
from pathlib import Path

import pandas as pd

import kvsim
from kvsim import _engine
from kvsim.closed_loop.both_loops import both_loops
from kvsim.results.points import with_points

TABLES = Path(__file__).with_name("tables")
KEY = ["sequence", "loop", "policy", "budget"]
ORDER = [*KEY, "layer", "kind", "step"]
# KL at each step, 1,000 numbers a row, is kept of these at one budget.
SHOWN = ["h2o", "kcenter", "lookback", "optimal", "sink", "snapkv", "tova", "window"]
SHOWN_BUDGET = "20%"


def loops(results):
    """One row per text, policy, budget and loop: what the replay and what the model lost."""
    closed = ["nll_full", "top1_agreement", "answers", "answers_right_full", "answers_right"]
    found = both_loops(results).drop(columns="calibrated_kl", errors="ignore")
    found = found.merge(results.closed_loop[[*KEY, *closed]], on=KEY)
    # A text may be recorded again for more policies; that of the first time is the same text.
    return found.rename(columns={"trace_id": "recording"})


def add_calibrated_kl():
    """A column of loops.csv: what the layers predict with weights from the other texts of it."""
    rows, errors = (pd.read_csv(TABLES / name) for name in ("loops.csv", "layers.csv.gz"))
    rows = rows.drop(columns="calibrated_kl", errors="ignore")
    key = ["mode", "sequence", "policy", "budget"]
    errors = errors.merge(rows[key].drop_duplicates())
    of_engine = {"trace_id": "", "seed": 0}
    errors = errors.assign(**of_engine, num_layers=errors.layer.max() + 1)
    found = kvsim.calibrated_kl(
        {"closed_loop": rows.assign(**of_engine), "layer_error": errors}
    ).drop(columns=list(of_engine))
    place = rows.columns.get_loc("projected_error")
    values = rows[key].merge(found, how="left").calibrated_kl
    rows.insert(place, "calibrated_kl", values.to_numpy())
    rows.to_csv(TABLES / "loops.csv", index=False, float_format="%.5g")


def kinds(results):
    """One row per text, policy, budget and kind of the predicted token."""
    rows = with_points(results.closed_loop_kind.merge(budgets(results), on=KEY))
    left_out = ["model_id", "mode", "seed", "policy_code", "run_id", "budget_request"]
    return rows.drop(columns=left_out)


def layers(results):
    """One row per text, policy, budget and layer: means of a replay over its KV heads."""
    key = ["sequence", "policy", "budget", "layer"]
    metrics = ["attention_recall", "miss_rate", "output_error_mean", "output_error_sq"]
    errors = ["projected_error", "projected_error_relative", "predicted_kl"]
    means = results.replay.groupby(key)[metrics].mean().reset_index()
    means = means.merge(results.layer_error[[*key, *errors]], on=key)
    whole = results.closed_loop.loc[results.closed_loop.loop == "imposed", key[:3]]
    return means.merge(whole, on=key[:3])


def steps(results):
    """One row per step of some policies at one budget."""
    rows = with_points(kvsim.closed_loop_steps(results).merge(budgets(results), on=KEY))
    names = rows.policy.str.split(":").str[0]
    is_shown = names.isin(SHOWN) & (rows.point == SHOWN_BUDGET) & (rows.loop == "imposed")
    rows = rows[is_shown]
    return rows[[*KEY, "step", "kind", "kl", "nll"]]


def analyses(results):
    """One row per text and layer: what the papers say of attention, means over its heads."""
    numbers = {
        "sparsity": ["sparsity"],
        "persistence": ["persistence_ratio", "pivotal_share"],
        "repetition": ["shared", "expected_shared"],
    }
    key = ["sequence", "layer"]
    means = [results[table].groupby(key)[names].mean() for table, names in numbers.items()]
    return pd.concat(means, axis=1).reset_index()


def is_default(spec):
    """Whether a policy has the parameters that its name alone stands for."""
    return _engine.specs(re.sub(r":[^+@]*", "", spec), "uniform")[0]["text"] == spec


def with_defaults(rows, are_defaults=True):
    """The rows of policies with default parameters, or those of the others; without `full`."""
    found = {spec: is_default(spec) == are_defaults for spec in rows.policy.unique()}
    return rows[rows.policy.map(found) & (rows.policy != "full")]


def budgets(results):
    return results.closed_loop[[*KEY, "budget_request"]]


def write(rows, path):
    """Replaces the rows of the texts, policies and budgets that there are rows of."""
    if path.exists():
        others = pd.read_csv(path)
        key = [name for name in KEY if name in rows]
        is_new = pd.MultiIndex.from_frame(others[key]).isin(pd.MultiIndex.from_frame(rows[key]))
        rows = pd.concat([others[~is_new], rows])
    rows = rows.sort_values([name for name in ORDER if name in rows])
    compression = {"method": "gzip", "mtime": 0} if path.suffix == ".gz" else None
    rows.to_csv(path, index=False, float_format="%.5g", compression=compression)


def main():
    folder = Path(sys.argv[1])
    results = kvsim.load(folder / "results.sqlite")
    TABLES.mkdir(exist_ok=True)
    of_all = loops(results)
    write(with_defaults(of_all), TABLES / "loops.csv")
    write(with_defaults(of_all, False), TABLES / "variants.csv")
    write(with_defaults(kinds(results)), TABLES / "kinds.csv")
    write(with_defaults(layers(results)), TABLES / "layers.csv.gz")
    add_calibrated_kl()
    write(with_defaults(steps(results)), TABLES / "steps.csv.gz")
    write(analyses(kvsim.load(folder / "analyses.sqlite")), TABLES / "analyses.csv")


if __name__ == "__main__":
    main()
