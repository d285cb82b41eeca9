"""Prints the numbers on tasks that the study's page takes from tables/tasks.csv and once.csv."""

from pathlib import Path

import numpy as np
import pandas as pd

from kvsim.closed_loop.prediction import interval_over_texts
from kvsim.report.style.labels import labels

ROWS = Path(__file__).with_name("tables") / "tasks.csv"
ONCE = ROWS.with_name("once.csv")
COLUMNS = {  # of the page: which rows they are means of
    "unseen": ("adaptive", "unseen"),
    "after": ("adaptive", "after"),
    "imposed": ("imposed", "unseen"),
}
OF_REPLAY = {"attention_recall": 1, "output_error_mean": -1, "projected_error": -1}


def quoted(values, digits=2):
    """A mean over texts with its interval, as the page writes it."""
    numbers = [values.mean(), *interval_over_texts(values.to_numpy(float))]
    mean, low, high = (f"{number:.{digits}f}".replace("0.", ".") for number in numbers)
    return f"{mean} [{low}, {high}]"


def rows_of(column):
    rows = pd.read_csv(ROWS)
    loop, asked = COLUMNS[column]
    rows = rows[(rows["loop"] == loop) & (rows["asked"] == asked)]
    return rows.assign(name=rows["policy"].map(labels(list(rows["policy"].unique()))))


def scores(column):
    """By policy, the mean score over texts."""
    return rows_of(column).groupby("name")["score"].apply(quoted)


def compressed_once():
    """By policy, the mean score over texts and the mean KL, where contexts are compressed once."""
    rows = pd.read_csv(ONCE)
    rows = rows.assign(name=rows["policy"].map(labels(list(rows["policy"].unique()))))
    return rows.groupby("name")[["score", "kl_mean"]].agg(quoted)


def against_snapkv():
    """The KL of kvzip as a multiple of SnapKV's on the same texts, compressed once: the geometric
    mean over texts with its interval."""
    rows = pd.read_csv(ONCE)
    name = rows["policy"].str.partition(":")[0]
    losses = rows.assign(name=name).pivot(index="sequence", columns="name", values="kl_mean")
    logs = np.log(losses["kvzip"] / losses["snapkv"]).to_numpy()
    mean, low, high = np.exp([logs.mean(), *interval_over_texts(logs)])
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]".replace("0.", ".")


def agreement(measure):
    """Spearman's correlation of the ranks of ten policies by a number of the replay and by the
    likelihood that the running model gives the answer, the mean over texts; 1: they agree."""
    replays = rows_of("imposed")[["sequence", "policy", measure]]
    asked = rows_of("unseen")[["sequence", "policy", "nll"]]
    both = asked.merge(replays, on=["sequence", "policy"])
    of_texts = both.groupby("sequence")[[measure, "nll"]].apply(
        lambda rows: -OF_REPLAY[measure] * rows[measure].rank().corr(rows["nll"].rank())
    )
    return quoted(of_texts)


def better_in_view(policy):
    """How much less the answer's NLL is where the question is in view, nats per token."""
    of_texts = [
        rows[rows["name"] == policy].set_index("sequence")["nll"]
        for rows in (rows_of("unseen"), rows_of("after"))
    ]
    return quoted(of_texts[0] - of_texts[1])


def main():
    table = pd.DataFrame({column: scores(column) for column in COLUMNS})
    print(table.fillna("").to_string())
    print(compressed_once().to_string())
    print(f"kvzip against snapkv: {against_snapkv()}")
    for measure in OF_REPLAY:
        print(f"{measure}: {agreement(measure)}")
    for policy in ("snapkv", "lookback", "h2o", "tova"):
        print(f"{policy}, question in view: {better_in_view(policy)} nats less")


if __name__ == "__main__":
    main()
