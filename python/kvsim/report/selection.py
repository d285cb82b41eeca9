"""Chooses the policies that the figures draw where nobody has named some."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .intervals import distinguishable
from .labels import base_name

if TYPE_CHECKING:
    from .frames import Comparison

MOST = 10  # lines that a reader can tell apart
REFERENCES = ("window", "random", "optimal", "topk")


def select(comparison: Comparison) -> list[str]:
    """The policies to draw, in the order of `comparison.policies`.

    All of them where the choice names some, or where there are at most MOST. Otherwise the
    REFERENCES, and then policies that hold the chosen budget, from the highest recall down: first
    those that are distinguishable from every one taken before, then the rest, until there are MOST.
    """
    policies = comparison.policies
    if comparison.choice.policies or len(policies) <= MOST:
        return policies
    taken = [spec for name in REFERENCES for spec in policies if spec.split(":")[0] == name]
    taken = list({base_name(spec): spec for spec in reversed(taken)}.values())
    rows = comparison.at(comparison.point)
    rivals = rows[rows["holds"] & ~rows.index.isin([*comparison.oracles, *taken])]
    ranked = list(rivals.sort_values("attention_recall", ascending=False, kind="stable").index)
    for needs_distinction in (True, False):
        for spec in ranked:
            if len(taken) == MOST:
                break
            if spec not in taken and not (
                needs_distinction and _is_like_one(comparison, spec, taken)
            ):
                taken.append(spec)
    return [spec for spec in policies if spec in taken]


def sentence(comparison: Comparison) -> str:
    """The sentence of a caption about the policies that a figure leaves out; empty if none."""
    count = len(comparison.policies)
    if len(comparison.shown) == count:
        return ""
    references = [base_name(spec) for spec in comparison.shown if base_name(spec) in REFERENCES]
    return (
        f" Drawn are {len(comparison.shown)} of {count} policies: {', '.join(references)}, and of "
        f"those that hold {comparison.budget_name(comparison.point)} the best, first those that "
        "are distinguishable from each other. The table has all; --policies all draws all, "
        "--policies 'h2o;tova' these two."
    )


def _is_like_one(comparison: Comparison, spec: str, others: list[str]) -> bool:
    there = set(comparison.at(comparison.point).index)
    return any(
        not distinguishable(*comparison.difference(spec, other, comparison.point)[1:])
        for other in there.intersection(others)
    )
