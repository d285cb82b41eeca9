"""Prints the numbers that the project's pages take from the study: python cited.py"""

from pathlib import Path

import pandas as pd

from kvsim.closed_loop.prediction import SERIOUS, interval_over_texts, rank_correlations
from kvsim.report.style.labels import labels

TABLES = Path(__file__).with_name("tables")
BUDGETS = ["5%", "10%", "20%", "40%"]


def with_interval(values, decimals=3):
    """The mean of one value per text, and its 95% interval from texts drawn with replacement."""
    low, high = interval_over_texts(values.dropna().to_numpy())
    return f"{values.mean():.{decimals}f} [{low:.{decimals}f}, {high:.{decimals}f}]"


def by_budget(loops, of_budget):
    """A table of what a function makes of the rows of each budget."""
    return pd.DataFrame({point: of_budget(loops[loops.point == point]) for point in BUDGETS})


def kl(rows):
    return rows.groupby("name").kl_mean.apply(with_interval)


def kl_above_h2o(rows):
    of_texts = rows.pivot(index="sequence", columns="name", values="kl_mean")
    return of_texts.sub(of_texts["h2o"], axis=0).apply(with_interval)


def kl_above_optimal(rows):
    of_texts = rows.pivot(index="sequence", columns="name", values="kl_mean")
    return of_texts.div(of_texts["optimal"], axis=0).apply(with_interval, decimals=1)


def answers(rows):
    asked = rows[rows.answers > 0].groupby("name")[["answers_right", "answers_right_full"]].sum()
    return asked.astype(int).astype(str).agg(" of ".join, axis=1)


def predicted_over_measured(rows):
    ratios = rows.predicted_kl / rows.kl_mean
    some = {"up to .3": rows.predicted_kl <= 0.3, "above": rows.predicted_kl > 0.3}
    return pd.Series(
        {name: f"{ratios[of].median():.2f} ({of.sum()} rows)" for name, of in some.items()}
    )


def correlations(loops, outcome="kl_mean"):
    found = rank_correlations(loops, SERIOUS).query("outcome == @outcome")
    text = [f"{row.spearman:.2f} [{row.low:.2f}, {row.high:.2f}]" for row in found.itertuples()]
    return found.assign(text=text).pivot(index="metric", columns="budget", values="text")[BUDGETS]


def of_text(loops):
    """The loops with the KL of the tokens of the kind `text` alone."""
    key = ["sequence", "policy", "budget"]
    kinds = pd.read_csv(TABLES / "kinds.csv").query("kind == 'text'")
    return loops.drop(columns="kl_mean").merge(kinds[[*key, "kl_mean"]], on=key)


def main():
    loops = pd.read_csv(TABLES / "loops.csv").query("loop == 'imposed'")
    loops["name"] = loops.policy.map(labels(list(loops.policy.unique())))
    print(loops.sequence.nunique(), "texts,", loops.name.nunique(), "policies\n")
    recall = by_budget(loops, lambda rows: rows.groupby("name").attention_recall.mean().round(3))
    tables = {
        "Attention recall": recall,
        "KL, nats per token": by_budget(loops, kl),
        "KL above that of h2o": by_budget(loops, kl_above_h2o),
        "KL over that of optimal, mean of the texts' ratios": by_budget(loops, kl_above_optimal),
        "Answers right, of those with the full cache": by_budget(loops, answers),
        "Spearman with the KL of ten policies": correlations(loops),
        "Spearman with the KL of text alone": correlations(of_text(loops)),
        "Predicted over measured KL, median": by_budget(loops, predicted_over_measured),
    }
    for title, table in tables.items():
        print(f"{title}\n{table.to_string()}\n")


if __name__ == "__main__":
    main()
