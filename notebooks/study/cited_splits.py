"""Prints what the pages say of other splits and scorers, from tables/splits.csv and scorers.csv."""

from pathlib import Path

import numpy as np
import pandas as pd
from cited_bytes import quoted

from kvsim.closed_loop.prediction import interval_over_texts

TABLES = Path(__file__).with_name("tables")
BUDGETS = ["10%", "20%"]


def compared(rows, column, base):
    """Per value of a column and budget: the mean KL, its ratio to that of the base (the geometric
    mean over texts), both with 95% intervals over texts, and the answers that are right."""
    kl = rows.pivot(index="sequence", columns=[column, "budget_request"], values="kl_mean")
    found = []
    for (name, budget), of in rows.groupby([column, "budget_request"], sort=False):
        lost = kl[name, budget].to_numpy()
        logs = np.log(lost / kl[base, budget].to_numpy())
        right, right_full = of[["answers_right", "answers_right_full"]].sum().astype(int)
        found.append({
            column: name,
            "budget": budget,
            "KL": quoted([lost.mean(), *interval_over_texts(lost)], 3),
            f"of {base}": quoted(np.exp([logs.mean(), *interval_over_texts(logs)])),
            "answers": f"{right} of {right_full}",
        })  # fmt: skip
    return pd.DataFrame(found)


def tables():
    """The comparisons of the page by what they are of."""
    splits, scorers = (pd.read_csv(TABLES / f"{name}.csv") for name in ("splits", "scorers"))
    found = {
        f"splits of {policy}, {loop}": compared(of, "split", "uniform")
        for (policy, loop), of in splits.groupby(["of", "loop"], sort=False)
    }
    return found | {"scorers": compared(scorers, "scorer", "linear")}


def lines(table):
    """A line of the page per name: KL and ratio at each budget, and the answers at the last."""
    name, ratio = table.columns[0], table.columns[3]
    for each, of in table.groupby(name, sort=False):
        of = of.set_index("budget").loc[BUDGETS]
        cells = [cell for budget in BUDGETS for cell in of.loc[budget, ["KL", ratio]]]
        yield f"| {each} | {' | '.join([*cells, of['answers'].iloc[-1]])} |"


def main():
    for name, table in tables().items():
        print(f"\n{name}")
        print("\n".join(lines(table)))


if __name__ == "__main__":
    main()
