"""Prints what the pages say of learned scorers and splits, from tables/learned.csv."""

from pathlib import Path

import numpy as np
import pandas as pd
from cited_bytes import quoted

from kvsim.closed_loop.prediction import interval_over_texts

ROWS = Path(__file__).with_name("tables") / "learned.csv"
BUDGETS = ["10%", "20%"]
LOOPS = ["imposed", "adaptive"]
DEFAULTS = ["h2o", "vatp", "lru", "snapkv"]


def rows():
    every = pd.read_csv(ROWS)
    name = every["policy"].str.replace(r"^(\w+)[^@]*", r"\1", regex=True)
    return every.assign(name=name.str.replace(r"@.*", "@file", regex=True))


def losses(of, name, loop, budget):
    """The KL of each text, in nats per token."""
    found = of[(of["name"] == name) & (of["loop"] == loop) & (of["budget_request"] == budget)]
    assert found["sequence"].is_unique, f"{name} names several policies"
    return found.set_index("sequence")["kl_mean"].sort_index()


def mean(of, name, loop, budget):
    """The mean KL over texts with its 95% interval; empty: it was not measured."""
    values = losses(of, name, loop, budget).to_numpy()
    return quoted([values.mean(), *interval_over_texts(values)], 3) if len(values) else ""


def best_default(of, loop, budget):
    """The policy without files that loses least on these texts."""
    return min(DEFAULTS, key=lambda name: losses(of, name, loop, budget).mean())


def ratio(of, name, loop, budget):
    """The KL as a multiple of the best default's: the geometric mean over texts, and its 95%
    interval over texts."""
    other = losses(of, best_default(of, loop, budget), loop, budget)
    logs = np.log(losses(of, name, loop, budget) / other).dropna().to_numpy()
    return quoted(np.exp([logs.mean(), *interval_over_texts(logs)])) if len(logs) else ""


def answers(of, name, loop, budget):
    """Answers right, of those that the full cache has right."""
    found = of[(of["name"] == name) & (of["loop"] == loop) & (of["budget_request"] == budget)]
    return f"{found['answers_right'].sum():.0f} of {found['answers_right_full'].sum():.0f}"


def main():
    of = rows()
    names = of.groupby("name")["kl_mean"].mean().sort_values().index
    for loop in LOOPS:
        for budget in BUDGETS:
            texts = losses(of, "h2o", loop, budget).size
            print(
                f"\n{loop}, {budget}, {texts} texts, best default {best_default(of, loop, budget)}"
            )
            for name in names:
                if not losses(of, name, loop, budget).empty:
                    found = [each(of, name, loop, budget) for each in (mean, ratio, answers)]
                    print(f"| `{name}` | {' | '.join(found)} |")


if __name__ == "__main__":
    main()
