"""Trains scorers that differ in one respect from that of the study, and measures them.

    python notebooks/study/scorers.py MODEL FOLDER

FOLDER has train.h5, the texts of texts_train.jsonl that scorers are trained on, and trace.h5, those
of texts.jsonl that they are measured on. A run that was interrupted goes on there. The scorers,
result files and scorers.csv are left.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from split import HERE, MEASURED, SHARES, texts_of

import kvsim
from kvsim.closed_loop.asked import loaded
from kvsim.train.run import FEATURES

OTHERS = [name for name in FEATURES if "key" not in name and "value" not in name]


def four_texts(first):
    """Two of facts and two articles of texts_train.jsonl, from a number on."""
    return [f"train-{kind}-{n}" for kind in ("facts", "article") for n in (first, first + 1)]


VARIANTS = {
    "linear": {},
    "mlp": {"kind": "mlp"},
    "trees": {"kind": "trees"},
    "of-layers": {"scope": "layer"},
    "of-the-model": {"scope": "model"},
    "four-texts": {"sequences": four_texts(2)},
    "target-optimum": {"target": "optimum"},
    "no-keys-or-values": {"features": OTHERS},
    "target-price": {"target": "price"},
    "second-round": {"policy": "learned:file={folder}/linear.npz"},
    "with-values": {"features": [*FEATURES, "value"]},
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budgets", default="10%,20%")
    parser.add_argument("--test", type=int, default=6, help="texts that they are measured on")
    parser.add_argument("--texts", type=Path, default=HERE / "texts.jsonl", help="of trace.h5")
    return parser.parse_args()


def trained(name, folder, train):
    """The spec of a variant, trained unless its file is there; and what it explains."""
    file = folder / f"{name}.npz"
    table = file.with_suffix(".csv")
    if not table.exists():
        options = {"budgets": "15%", **VARIANTS[name]}
        if "policy" in options:
            options["policy"] = options["policy"].format(folder=folder)
        rows = kvsim.train(train, file, **options)
        rows.to_csv(table.with_suffix(".part"), index=False)
        table.with_suffix(".part").rename(table)
    rows = pd.read_csv(table)
    return f"learned:file={file}", np.average(rows.explained, weights=rows.samples)


def split_by_others(spec, folder, train):
    """The spec with a split of the budget, of texts that its scorer was not trained on."""
    losses, table = folder / "four-texts-losses.sqlite", folder / "four-texts-budgets.npy"
    kvsim.sweep(train, spec, SHARES, sequences=four_texts(0), output=losses)
    np.save(table, kvsim.head_budgets(losses, spec, metric="predicted_kl", trace=train))
    return f"{spec}@file:{table}"


def main():
    options = arguments()
    folder = options.folder / "scorers"
    folder.mkdir(exist_ok=True)
    train = kvsim.Trace(options.folder / "train.h5")
    trace = kvsim.Trace(options.folder / "trace.h5")
    tested = texts_of(options.texts, trace, options.test)
    model, tokenizer = loaded(options.model, None, needed=True)
    found = []
    for name in VARIANTS:
        spec, explained = trained(name, folder, train)
        specs = {name: spec}
        if name == "four-texts":
            specs["split-by-others"] = split_by_others(spec, folder, train)
        rows = kvsim.evaluate(
            model, tested, [f"{label}={each}" for label, each in specs.items()],
            options.budgets.split(","), tokenizer=tokenizer, trace=trace,
            output=options.folder / "scorers.sqlite",
        )  # fmt: skip
        rows = rows.assign(scorer=rows.label, explained=explained)
        found.append(rows[["scorer", "explained", *MEASURED]])
        table = pd.concat(found, ignore_index=True)
        table.to_csv(options.folder / "scorers.csv", index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
