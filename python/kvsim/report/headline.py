"""The sentence at the head of the page: which policy ranks first, as far as the data say."""

from .numbers.frames import Comparison
from .numbers.intervals import distinguishable, span

_PLAIN = "At one budget no number of a replay reliably ranks policies as a running model does"
_CALIBRATED = (
    "The calibrated KL is fitted to the running model on other texts: it ranks policies better "
    "than the other numbers of a replay do, and not as surely as the model"
)
_MOST_NAMES = 4
OPEN_LOOP = (
    "These numbers are open loop: pages are chosen by the queries of a model that attended to all."
)


def open_loop(comparison: Comparison) -> str:
    """What the numbers of the page do not say, and what does."""
    says = _CALIBRATED if comparison.ranking.measure == "calibrated_kl" else _PLAIN
    return (
        f"These numbers are open loop. {says} (sim/results/comparisons.md). "
        "python -m kvsim.evaluate runs the policies in your model, which decides."
    )


def headline(comparison: Comparison) -> str:
    """Names a winner only if it is distinguishable from every other policy; empty without rows.

    It calls none from too few samples, of which the intervals are too short.
    """
    rows = comparison.at(comparison.point)
    ranking = comparison.ranking
    rivals = rows[rows["holds"] & ~rows.index.isin(comparison.oracles)]
    found = rivals[ranking.measure].dropna().sort_values(ascending=ranking.is_loss, kind="stable")
    if found.empty:
        return ""
    best, *others = found.index
    where = f"At {comparison.budget_name(comparison.point)} per KV head, "
    of = f"the {ranking.best} of the policies that hold the budget"
    samples = comparison.intervals_of(ranking.measure).samples
    if samples.count == 1:
        text = f"{where}{_named(comparison, best)} has {of}"
        text += f" in the one {comparison.sample_name(ranking.measure)[:-1]} that was replayed, "
        text += "which gives no intervals"
    elif others and not samples.are_enough:
        text = f"{where}{_named(comparison, best)} has {of}; "
        text += f"too few samples ({samples.count}) to tell whether another is as good"
    elif alike := [spec for spec in others if not _apart(comparison, best, spec)]:
        text = f"{where}{_list(comparison, [best, *alike])} have {of} and are not "
        text += "distinguishable: the 95% interval of the difference "
        text += f"from {comparison.styles[best].label} contains 0"
        text += " for each of the others" if len(alike) > 1 else ""
    else:
        text = f"{where}{_named(comparison, best)} has {of}"
        if others:
            text += f", {_lead(comparison, best, others[0])} than "
            text += f"{comparison.styles[others[0]].label}, the next"
        if len(others) > 1:
            text += "; each interval is for itself, not corrected for the number of policies"
    return text + "." + _between_the_ends(comparison, best)


def _between_the_ends(comparison: Comparison, best: str) -> str:
    """How far the best policy is from `window`, from `random`, the control, and from the oracle."""
    there = set(comparison.at(comparison.point).index)
    label = comparison.styles[best].label
    text = ""
    for name, called in (("window", "window"), ("random", "random, the control")):
        if name in there - {best}:
            apart = "" if _apart(comparison, best, name) else ", which is not distinguishable"
            text += f" {label} has {_lead(comparison, best, name)} than {called}{apart}."
    oracle = _best_oracle(comparison)
    if oracle in there - {best}:
        text += f" The oracle {_named(comparison, oracle)} has "
        text += f"{_lead(comparison, oracle, best)} than {label}."
    return text


def _best_oracle(comparison: Comparison) -> str | None:
    """The oracle that ranks first of those that evict; where recall ranks, that of the regret."""
    if not comparison.ranking.is_loss:
        return comparison.yardstick
    rows = comparison.at(comparison.point)
    rows = rows[rows["holds"] & rows.index.isin(comparison.oracles)]  # topk holds every token
    return next(iter(rows.index), None)


def _apart(comparison: Comparison, first: str, second: str) -> bool:
    return distinguishable(*_difference(comparison, first, second)[1:])


def _difference(comparison: Comparison, first: str, second: str) -> tuple[float, float, float]:
    return comparison.difference(first, second, comparison.point, comparison.ranking.measure)


def _lead(comparison: Comparison, first: str, second: str) -> str:
    """The difference in words: `0.0123 [0.0101, 0.0145] more`, or `less` for an error."""
    ranking = comparison.ranking
    is_less = ranking.is_loss and _difference(comparison, first, second)[0] <= 0
    value, *ends = _difference(comparison, *((second, first) if is_less else (first, second)))
    decimals = ranking.decimals(value, 4)
    text = f"{value:,.{decimals}f} {span(*ends, decimals)}".strip().replace("-", "−")
    return f"{text} {'less' if is_less else 'more'}"


def _named(comparison: Comparison, spec: str) -> str:
    measure = comparison.ranking.measure
    row = comparison.at(comparison.point).loc[spec]
    decimals = comparison.ranking.decimals(row[measure], 3)
    ends = span(row[f"{measure}_low"], row[f"{measure}_high"], decimals)
    return f"{comparison.styles[spec].label} ({row[measure]:,.{decimals}f} {ends}".strip() + ")"


def _list(comparison: Comparison, specs: list[str]) -> str:
    names = [_named(comparison, spec) for spec in specs[:_MOST_NAMES]]
    if len(specs) > _MOST_NAMES:
        names.append(f"{len(specs) - _MOST_NAMES} more")
    return f"{', '.join(names[:-1])} and {names[-1]}"
