"""Chooses the policies that the figures draw where nobody has named some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ..style.labels import base_name

if TYPE_CHECKING:
    import pandas as pd

    from .choice import Choice
    from .ranking import Ranking

MOST = 10  # lines that a reader can tell apart
REFERENCES = ("window", "random", "optimal", "topk")


class Compared(Protocol):
    """What the choice reads of `frames.Comparison`, which asks for it."""

    choice: Choice
    policies: list[str]
    oracles: set[str]
    point: str
    ranking: Ranking
    shown: list[str]

    def at(self, point: str) -> pd.DataFrame: ...

    def budget_name(self, point: str) -> str: ...

    def difference(
        self, first: str, second: str, point: str, measure: str
    ) -> tuple[float, float, float]: ...


def select(comparison: Compared) -> list[str]:
    """The policies to draw, in the order of `comparison.policies`.

    All of them where the choice names some, or where there are at most MOST. Otherwise the
    REFERENCES, and of the policies that hold the chosen budget those that the ranking puts first,
    until there are MOST. Of policies that are the same in every unit, the first one is taken.
    """
    policies = comparison.policies
    if comparison.choice.policies or len(policies) <= MOST:
        return policies
    taken = [spec for name in REFERENCES for spec in policies if spec.split(":")[0] == name]
    taken = list({base_name(spec): spec for spec in reversed(taken)}.values())
    rows = comparison.at(comparison.point)
    rivals = rows[rows["holds"] & ~rows.index.isin([*comparison.oracles, *taken])]
    ranking = comparison.ranking
    best = rivals.sort_values(ranking.measure, ascending=ranking.is_loss, kind="stable")
    ranked = list(best.index)
    for spec in ranked:
        if len(taken) < MOST and not _is_the_same(comparison, spec, taken):
            taken.append(spec)
    return [spec for spec in policies if spec in taken]


def best_of(specs: list[str], is_rival: pd.Series) -> list[str]:
    """The REFERENCES among policies in their order, best first, and the best of those that compete,
    until there are MOST; all where there are no more than that."""
    if len(specs) <= MOST:
        return specs
    first = {spec.split(":")[0]: spec for spec in reversed(specs)}  # plain ones, without + or @
    taken = {first[name] for name in REFERENCES if name in first}
    for spec in specs:
        if is_rival[spec] and len(taken) < MOST:
            taken.add(spec)
    return [spec for spec in specs if spec in taken]


def sentence(comparison: Compared, is_first: bool = False) -> str:
    """The sentence of a caption about the policies that a figure leaves out; empty if none.

    The caption of the first curves explains the choice.
    """
    count = len(comparison.policies)
    if len(comparison.shown) == count:
        return ""
    text = f" Drawn are {len(comparison.shown)} of {count} policies"
    if not is_first:
        return f"{text}, as in the first curves."
    there = {base_name(spec) for spec in comparison.shown}
    return (
        f"{text}: {', '.join(name for name in REFERENCES if name in there)}, and of those that "
        f"hold the budget the ones with the {comparison.ranking.best} at "
        f"{comparison.budget_name(comparison.point)}. In the explorable figure, a click on a name "
        "shows another; kvsim report … --policies all draws all, --policies 'h2o;tova' these two. "
        "The table has all."
    )


def _is_the_same(comparison: Compared, spec: str, others: list[str]) -> bool:
    there, measure = comparison.at(comparison.point).index, comparison.ranking.measure
    differences = (
        comparison.difference(spec, other, comparison.point, measure)
        for other in others
        if other in there
    )
    return any(value == low == high == 0 for value, low, high in differences)
