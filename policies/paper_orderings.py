"""Prints the tables of paper_orderings.md from a result file of `python -m kvsim.evaluate`.

python policies/paper_orderings.py orderings.sqlite [--budget 20%]
python policies/paper_orderings.py notebooks/study/tables [--budget 20%]
"""

import argparse
from pathlib import Path

import pandas as pd

import kvsim
from kvsim import _engine
from kvsim.bootstrap import Samples

# The paper's table, A and B: "A < B" says that B is better.
CLAIMS = [
    ("1, 6: H2O Tables 2, 9", "window", "h2o"),
    ("2: H2O Table 2", "strided", "strided:h2=0.5"),
    ("3: H2O Table 2", "fixed", "fixed:h2=0.5"),
    ("4: H2O Table 8", "topk", "topk:h2=0.5"),
    ("5: H2O Table 9", "window", "h2o:recent=0"),
    ("6: H2O Table 9", "h2o:recent=0", "h2o"),
    ("7: H2O Table 11", "spatten", "h2o"),
    ("8: H2O Tables 9, 11", "h2o:recent=0", "spatten"),
    ("9: Scissorhands Table 3", "window", "scissorhands"),
    ("10: SubGen Table 1", "sink", "kcenter"),
    ("10: SubGen Table 1", "h2o", "kcenter"),
]
VARIANTS = [
    ("9", "window", "scissorhands:drop=0"),
    ("9", "window", "lru"),
    ("9", "scissorhands", "scissorhands:drop=0"),
]
# Column, digits, and the sign of what is better.
OUTCOMES = [("percent_right", 1, 1), ("kl_mean", 4, -1), ("delta_nll", 4, -1)]
HEAD = "| claim | A < B | mode | answers right, % | | KL | | delta NLL | | recall |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Prints the tables of paper_orderings.md.")
    parser.add_argument("results", type=Path, help="a result file, or the tables of the study")
    parser.add_argument("--budget", default="20%", help="as it was asked for (default: 20%%)")
    parser.add_argument("--loop", default="imposed", help="imposed or adaptive (default: imposed)")
    options = parser.parse_args()
    closed, opened = both_loops(options.results)
    closed = closed.query("budget_request == @options.budget and loop == @options.loop")
    closed = closed.assign(percent_right=100 * closed.answers_right / closed.answers)
    opened = opened.query("budget_request == @options.budget")
    recall = opened.groupby(["sequence", "policy", "mode"], as_index=False).attention_recall.mean()
    for claims in (CLAIMS, VARIANTS):
        print(HEAD, "| --- " * 10 + "|", sep="\n")
        for claim, a, b in claims:
            for mode in ("stream", "prefill"):
                ran = set(closed[closed["mode"] == mode].policy)
                if not {canonical(a), canonical(b)} <= ran:
                    continue  # the mode was not run, or the loop refuses one of the two
                cells = [f"{claim} | `{a}` < `{b}` | {mode}"]
                for column, digits, better in OUTCOMES:
                    means, difference, low, high = compared(closed, column, mode, a, b)
                    cell = f"{shown(means[0], digits)}, {shown(means[1], digits)}: "
                    cell += f"{signed(difference, digits)} [{signed(low, digits)}, "
                    cells += [cell + signed(high, digits) + "]", verdict(low, high, better)]
                _, difference, low, high = compared(recall, "attention_recall", mode, a, b)
                cells.append(f"{signed(difference, 3)} {verdict(low, high, 1)}")
                print("|", " | ".join(cells), "|")
        print()


def both_loops(path: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of the running model, and those of the replay."""
    if not path.is_dir():
        tables = kvsim.load(path)
        return tables.closed_loop, tables.replay
    rows = pd.concat([pd.read_csv(path / f"{name}.csv") for name in ("loops", "variants")])
    rows = rows.assign(budget_request=rows.point)
    return rows, rows.query("loop == 'imposed'")


def canonical(policy: str) -> str:
    return _engine.specs(policy, "uniform")[0]["text"]


def compared(
    rows: pd.DataFrame, column: str, mode: str, a: str, b: str
) -> tuple[list[float], float, float, float]:
    """The means of A and B over texts, and their difference B - A with its 95% interval."""
    values = rows[rows["mode"] == mode].pivot(index="sequence", columns="policy", values=column)
    values = values[[canonical(a), canonical(b)]].dropna().astype(float)
    texts = values.index.to_frame(index=False).assign(layer=0, kv_head=0)
    samples = Samples(texts)
    both = values.loc[samples.units.get_level_values("sequence")].to_numpy().T
    differences = both[1:] - both[:1]
    # Equal shares may differ by the rounding of their means.
    low, high = (
        round(float(end[0]), 9) for end in samples.limits(samples.drawn_means(differences))
    )
    return list(both.mean(axis=1)), float(samples.mean(differences)[0]), low, high


def verdict(low: float, high: float, better: int) -> str:
    if low <= 0 <= high:
        return "–"
    return "yes" if (low > 0) == (better > 0) else "reverse"


def shown(value: float, digits: int, plus: str = "") -> str:
    return ("−" if value < 0 else plus) + f"{abs(value):.{digits}f}".removeprefix("0")


def signed(value: float, digits: int) -> str:
    return shown(value, digits, "+")


if __name__ == "__main__":
    main()
