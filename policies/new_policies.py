"""Prints the tables of new_policies.md from a result file of `python -m kvsim.evaluate`.

python policies/new_policies.py new.sqlite [--new "valuediff;lookback"]
"""

import argparse
from pathlib import Path

import pandas as pd
from paper_orderings import canonical, compared, shown, signed, verdict

import kvsim

RIVALS = ["window", "sink", "h2o", "tova", "snapkv", "random"]
# Column, heading, digits, and the sign of what is better.
OUTCOMES = [("kl_mean", "KL", 4, -1), ("percent_right", "answers right, %", 1, 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Prints the tables of new_policies.md.")
    parser.add_argument("results", type=Path)
    parser.add_argument("--new", default="valuediff;lookback", help="specs, with ;")
    options = parser.parse_args()
    closed = kvsim.load(options.results).closed_loop
    closed = closed.assign(percent_right=100 * closed.answers_right / closed.answers)
    budgets = list(dict.fromkeys(closed.budget_request))
    print_means(closed, budgets)
    for new in options.new.split(";"):
        for column, heading, digits, better in OUTCOMES:
            print(f"`{new}`, {heading}:\n\n| rival |", " | ".join(budgets), "|")
            print("| --- " * (1 + len(budgets)) + "|")
            for rival in RIVALS:
                cells = [
                    cell(
                        closed[closed.budget_request == budget], column, rival, new, digits, better
                    )
                    for budget in budgets
                ]
                print(f"| `{rival}` |", " | ".join(cells), "|")
            print()


def print_means(closed: pd.DataFrame, budgets: list[str]) -> None:
    print("| policy |", " | ".join(budgets), "|")
    print("| --- " * (1 + len(budgets)) + "|")
    means = closed.groupby(["policy", "budget_request"])[["kl_mean", "percent_right"]].mean()
    asked = [canonical(rival) for rival in RIVALS]
    for policy in dict.fromkeys([*asked, *closed.policy]):
        name = policy.partition(":")[0]
        rows = [means.loc[policy, budget] for budget in budgets]
        cells = [f"{shown(row.kl_mean, 4)}, {shown(row.percent_right, 1)}" for row in rows]
        print(f"| `{name if canonical(name) == policy else policy}` |", " | ".join(cells), "|")
    print()


def cell(closed: pd.DataFrame, column: str, rival: str, new: str, digits: int, better: int) -> str:
    """The difference new - rival with its 95% interval, and which of the two is better."""
    mode = closed["mode"].iloc[0]
    _, difference, low, high = compared(closed, column, mode, rival, new)
    words = {"yes": "better", "reverse": "**worse**"}
    outcome = verdict(low, high, better)
    interval = f"[{signed(low, digits)}, {signed(high, digits)}]"
    return f"{signed(difference, digits)} {interval} {words.get(outcome, outcome)}"


if __name__ == "__main__":
    main()
