"""Splits a model's budget by what heads lose on some texts, and runs it on others.

    python notebooks/study/split.py MODEL FOLDER

FOLDER has train.h5, the texts of texts_train.jsonl that splits are made of, recorded with
output_projection and output_score_grad, and trace.h5, those of texts.jsonl that they are measured
on. A run that was interrupted goes on there. Tables of budgets, result files and splits.csv
are left.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd

import kvsim
from kvsim.closed_loop.asked import loaded

HERE = Path(__file__).parent
SHARES = ["2%", "3%", "5%", "7%", "10%", "15%", "20%", "30%", "45%", "70%"]
MEASURED = ["budget_request", "sequence", "kl_mean", "answers_right_full", "answers_right"]
ADAPTIVE = ["uniform", "predicted_kl", "refined"]
METRICS = ["attention_loss", "output_error_sq", "projected_error", "predicted_kl"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--policies", default="h2o;snapkv")
    parser.add_argument("--budgets", default="10%,20%")
    parser.add_argument("--groups", type=int, default=6)
    parser.add_argument("--train", type=int, default=4, help="texts that splits are made of")
    parser.add_argument("--test", type=int, default=6, help="texts that they are measured on")
    parser.add_argument("--texts", type=Path, default=HERE / "texts.jsonl", help="of trace.h5")
    return parser.parse_args()


def texts_of(file, trace, number):
    """So many texts of the trace, one of each kind before the second of any."""
    there = {sequence.name for sequence in trace.sequences}
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    lines = pd.DataFrame({"line": lines, "name": [line["name"] for line in lines]})
    lines = lines[lines.name.isin(there)]
    kind = lines.name.str.replace(r"-?\d+$", "", regex=True)
    order = kind.groupby(kind).cumcount().sort_values(kind="stable").index
    return lines.line[order[:number]].tolist()


def splits(policy, model, options, training, train):
    """The specs of a policy by what splits its budget, made of the training texts."""
    file, tables = options.folder / "split.sqlite", options.folder / "split"
    tables.mkdir(exist_ok=True)
    names = [text["name"] for text in training]
    kvsim.sweep(train, policy, SHARES, sequences=names, output=file)
    specs = {"uniform": policy, "pyramid": f"{policy}@pyramid", "adaptive": f"{policy}@adaptive"}

    def path_of(name):
        return tables / f"{policy.partition(':')[0]}-{name}.npy"

    def add(name, budgets):
        np.save(path_of(name), budgets)
        specs[name] = f"{policy}@file:{path_of(name)}"

    for metric in METRICS:
        add(metric, kvsim.head_budgets(
            file, policy, metric=metric, sequences=names, trace=train
        ))  # fmt: skip
    refined = kvsim.refined_budgets(
        model, training, policy, path_of("predicted_kl"), options.budgets.split(","),
        groups=options.groups, trace=train, output=options.folder / "split-groups.sqlite",
    )  # fmt: skip
    print(refined.groups.pivot(index="group", columns="share", values="kl").round(4))
    print(refined.totals.round(4))
    add("refined", refined.budgets)
    return specs


def main():
    options = arguments()
    folder = options.folder
    train, trace = kvsim.Trace(folder / "train.h5"), kvsim.Trace(folder / "trace.h5")
    training = texts_of(HERE / "texts_train.jsonl", train, options.train)
    tested = texts_of(options.texts, trace, options.test)
    model, tokenizer = loaded(options.model, None, needed=True)
    policies = options.policies.split(";")
    if len({policy.partition(":")[0] for policy in policies}) < len(policies):
        raise SystemExit("split.py: tables are named by policies: expected each name once")
    found = []
    for policy in policies:
        specs = splits(policy, model, options, training, train)
        for loop, names in {"imposed": specs, "adaptive": ADAPTIVE}.items():
            rows = kvsim.evaluate(
                model, tested, [f"{name}={specs[name]}" for name in names],
                options.budgets.split(","), tokenizer=tokenizer, trace=trace, loop=loop,
                output=folder / "split-test.sqlite",
            )  # fmt: skip
            rows = rows.assign(of=policy.partition(":")[0], split=rows.label)
            found.append(rows[["of", "split", "loop", *MEASURED]])
        table = pd.concat(found, ignore_index=True)
        table.to_csv(folder / "splits.csv", index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
