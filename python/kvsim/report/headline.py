"""The sentence at the head of the page: who retains the most attention, as far as the data say."""

from .frames import Comparison
from .intervals import distinguishable, span

OPEN_LOOP = (
    "These numbers are open loop: they find the budget and the disasters, but hardly rank serious "
    "policies at one budget; for that, use python -m kvsim.evaluate."
)
_MOST_NAMES = 4


def headline(comparison: Comparison) -> str:
    """Names a winner only if it is distinguishable from every other policy; empty without rows.

    It calls none from too few samples, of which the intervals are too short.
    """
    rows = comparison.at(comparison.point)
    rivals = rows[rows["holds"] & ~rows.index.isin(comparison.oracles)]
    recall = rivals["attention_recall"].dropna().sort_values(ascending=False, kind="stable")
    if recall.empty:
        return ""
    best, *others = recall.index
    where = f"At {comparison.budget_name(comparison.point)} per KV head, "
    of = "the most attention of the policies that hold the budget"
    samples = comparison.intervals.samples
    if samples.count == 1:
        text = f"{where}{_named(comparison, best)} retains {of}"
        text += " in the one unit that was replayed, which gives no intervals"
    elif others and not samples.are_enough:
        text = f"{where}{_named(comparison, best)} retains {of}; "
        text += f"too few samples ({samples.count}) to tell whether another is as good"
    elif alike := [spec for spec in others if not _apart(comparison, best, spec)]:
        text = f"{where}{_list(comparison, [best, *alike])} retain {of} and are not "
        text += "distinguishable: the 95% interval of the difference "
        text += f"from {comparison.styles[best].label} contains 0"
        text += " for each of the others" if len(alike) > 1 else ""
    else:
        text = f"{where}{_named(comparison, best)} retains {of}"
        if others:
            text += f", {_difference(comparison, best, others[0])} more than "
            text += f"{comparison.styles[others[0]].label}, the next"
        if len(others) > 1:
            text += "; each interval is for itself, not corrected for the number of policies"
    return text + "." + _between_the_ends(comparison, best)


def _between_the_ends(comparison: Comparison, best: str) -> str:
    """How far the best policy is from `window` and from the oracle."""
    there = set(comparison.at(comparison.point).index)
    best_label = comparison.styles[best].label
    text = ""
    if "window" in there - {best}:
        apart = "" if _apart(comparison, best, "window") else ", which is not distinguishable"
        gain = _difference(comparison, best, "window")
        text += f" Over window, {best_label} gains {gain}{apart}."
    oracle = comparison.yardstick
    if oracle in there - {best}:
        label = comparison.styles[oracle].label
        text += f" The oracle {label} retains {_difference(comparison, oracle, best)} more than "
        text += f"{best_label}."
    return text


def _apart(comparison: Comparison, first: str, second: str) -> bool:
    return distinguishable(*comparison.difference(first, second, comparison.point)[1:])


def _difference(comparison: Comparison, first: str, second: str) -> str:
    value, *ends = comparison.difference(first, second, comparison.point)
    return f"{value:.4f} {span(*ends, 4)}".strip().replace("-", "−")


def _named(comparison: Comparison, spec: str) -> str:
    row = comparison.at(comparison.point).loc[spec]
    ends = span(row["attention_recall_low"], row["attention_recall_high"], 3)
    return f"{comparison.styles[spec].label} ({row['attention_recall']:.3f} {ends}".strip() + ")"


def _list(comparison: Comparison, specs: list[str]) -> str:
    names = [_named(comparison, spec) for spec in specs[:_MOST_NAMES]]
    if len(specs) > _MOST_NAMES:
        names.append(f"{len(specs) - _MOST_NAMES} more")
    return f"{', '.join(names[:-1])} and {names[-1]}"
