"""Writes the tables of tasks: python summarise_tasks.py FOLDER

FOLDER has tasks.sqlite, as `run` leaves it: what the model answered, and of the same texts what
replays of their traces lost; and once.sqlite, where contexts are compressed once.
"""

import sys
from pathlib import Path

import pandas as pd
from summarise import is_default
from summarise_bytes import without_file

import kvsim
from kvsim.tasks.asking.summary import of_texts

TABLES = Path(__file__).with_name("tables")
KEY = ["sequence", "policy", "budget_request"]
OF_REPLAY = ["attention_recall", "output_error_mean"]


def answered(results):
    """One row per text, question, policy and budget: what the running model answered."""
    rows = of_texts(results.task_answer).rename(columns={"question": "asked"})
    return rows[["task", *KEY, "asked", "score", "nll"]].assign(loop="adaptive")


def imposed(results):
    """The same of the imposed loop, where the context alone is compressed."""
    rows = results.closed_loop
    rows = rows.assign(
        task=rows["sequence"].str.split(".").str[0],
        score=rows["answers_right"] / rows["answers"],
        asked="unseen",
    )
    replays = results.replay.groupby(KEY)[OF_REPLAY].mean().reset_index()
    errors = results.layer_error.groupby(KEY).projected_error.sum().reset_index()
    rows = rows[["task", *KEY, "asked", "score", "kl_mean", "loop"]]
    return rows.merge(replays, on=KEY).merge(errors, on=KEY)


def once(results):
    """What the model answered of contexts that were compressed once, at their end."""
    rows = results.closed_loop
    rows = rows.assign(
        policy=rows["policy"].map(without_file), score=rows["answers_right"] / rows["answers"]
    )
    return rows[[*KEY, "score", "kl_mean"]].sort_values(KEY)


def main():
    results = kvsim.load(Path(sys.argv[1]) / "tasks.sqlite")
    rows = pd.concat([answered(results), imposed(results)])
    defaults = {spec: is_default(spec) for spec in rows["policy"].unique()}
    rows = rows[rows["policy"].map(defaults)].sort_values(["task", *KEY, "asked", "loop"])
    rows.to_csv(TABLES / "tasks.csv", index=False, float_format="%.5g")
    rows = once(kvsim.load(Path(sys.argv[1]) / "once.sqlite"))
    rows.to_csv(TABLES / "once.csv", index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
