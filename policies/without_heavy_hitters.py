"""Prints the table of without_heavy_hitters.md from a result file of `python -m kvsim.evaluate`.

python policies/without_heavy_hitters.py light.sqlite
"""

import argparse
from pathlib import Path

from paper_orderings import canonical, compared, shown, signed

import kvsim

HEAVY, LIGHT, RANDOM = "h2o", "h2o:keep=light", "random"


def main() -> None:
    parser = argparse.ArgumentParser(description="Prints the table of without_heavy_hitters.md.")
    parser.add_argument("results", type=Path)
    tables = kvsim.load(parser.parse_args().results)
    closed = tables.closed_loop
    print("| budget | recall: heavy, light, random | KL: heavy, light, random", end=" ")
    print("| light − heavy | light − random | answers right |")
    print("| --- " * 6 + "|")
    mode = closed["mode"].iloc[0]
    policies = [canonical(policy) for policy in (HEAVY, LIGHT, RANDOM)]
    for budget in dict.fromkeys(closed.budget_request):
        rows = closed.query("budget_request == @budget and mode == @mode")
        opened = tables.replay.query("budget_request == @budget and mode == @mode")
        recall = opened.groupby("policy").attention_recall.mean()
        kl = rows.groupby("policy").kl_mean.mean()
        right = rows.groupby("policy").answers_right.sum()
        cells = [
            ", ".join(shown(recall[policy], 3) for policy in policies),
            ", ".join(shown(kl[policy], 4) for policy in policies),
        ]
        for rival in (HEAVY, RANDOM):
            _, difference, low, high = compared(rows, "kl_mean", mode, rival, LIGHT)
            cells.append(f"{signed(difference, 4)} [{signed(low, 4)}, {signed(high, 4)}]")
        cells.append(", ".join(str(int(right[policy])) for policy in policies))
        print(f"| {budget} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
