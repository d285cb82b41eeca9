"""Prints the table of rest.md from a result file of `python -m kvsim.evaluate --loop adaptive`.

python policies/rest.py rest-closed.sqlite
"""

import argparse
from pathlib import Path

from paper_orderings import compared, shown, signed

import kvsim

REST = "+rest"


def main() -> None:
    parser = argparse.ArgumentParser(description="Prints the table of rest.md.")
    parser.add_argument("results", type=Path)
    closed = kvsim.load(parser.parse_args().results).closed_loop
    policies = [
        policy for policy in dict.fromkeys(closed.policy) if policy + REST in set(closed.policy)
    ]
    print("| policy | budget | KL | with the entry | difference | answers right | with the entry |")
    print("| --- " * 7 + "|")
    for policy in policies:
        for budget in dict.fromkeys(closed.budget_request):
            rows = closed[closed.budget_request == budget]
            mode = rows["mode"].iloc[0]
            (alone, joined), difference, low, high = compared(
                rows, "kl_mean", mode, policy, policy + REST
            )
            right = [
                f"{each.answers_right.sum()} of {each.answers.sum()}"
                for each in (rows[rows.policy == policy], rows[rows.policy == policy + REST])
            ]
            interval = f"{signed(difference, 4)} [{signed(low, 4)}, {signed(high, 4)}]"
            cells = [policy.partition(":")[0], budget, shown(alone, 4), shown(joined, 4), interval]
            print("|", " | ".join([*cells, *right]), "|")


if __name__ == "__main__":
    main()
