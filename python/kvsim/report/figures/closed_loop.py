"""Draws what the running model loses against the budget: KL, negative log likelihood, answers."""

from dataclasses import replace

import pandas as pd

from ... import _engine
from ...closed_loop.choice import refused_by_imposed
from ...errors import KvsimError
from ...results.columns import better
from ..numbers.closed_loop import ClosedLoop
from ..numbers.frames import Comparison
from ..numbers.intervals import span
from ..numbers.protocol import options_of
from ..numbers.selection import sentence
from . import Missing, Plan, Table, curves

_CURVES = {
    "kl_mean": (
        "closed-loop-kl",
        "KL to the full model",
        "KL to the full model (nats per token)",
        "How far the predictions of the running model with this policy are from those with the "
        "full cache: {better}.",
    ),
    "delta_nll": (
        "closed-loop-nll",
        "Negative log likelihood",
        "increase of the NLL (nats per token)",
        "How much worse the running model with this policy predicts the text than with the full "
        "cache: {better}, and below 0 forgetting helps.",
    ),
    "answers_share": (
        "closed-loop-answers",
        "Answers",
        "right answers (share of answers, 0–1)",
        "The share of labelled answers of which the running model predicts every token: {better}. "
        "KL and answers may part ways.",
    ),
    "kept_overlap": (
        "kept-overlap",
        "Kept tokens, running model against replay",
        "overlap of kept sets (Jaccard index, 0–1)",
        "Of the tokens that the policy keeps in the running model or in the replay, the share that "
        "it keeps in both, the mean over steps and KV heads: 1 where a policy does not depend on "
        "what the model does.",
    ),
}
_PLAIN = {
    "imposed": " Kept sets of the replay, imposed on the model.",
    "adaptive": " The policies decide inside the running model.",
}


def plan(comparison: Comparison) -> list[Plan]:
    closed = ClosedLoop(comparison)
    if not closed.loops:
        why = "The file has no rows of the running model for this trace, mode and seed."
        return [Missing("closed-loop-kl", "Closed loop", why, first_command(comparison))]
    plans = [_plan(closed, measure) for measure in _CURVES]
    return [plan for plan in plans if plan is not None]


def first_command(comparison: Comparison) -> str:
    """Adds rows of the running model on the trace of the report, which has none yet."""
    return command(comparison, f"--trace {comparison.trace}")


def command(comparison: Comparison, options: str, texts: str = "--text FILE") -> str:
    """Adds rows of the running model for the policies and budgets of the report."""
    loop = "adaptive" if "adaptive" in options else "imposed"
    policies = [spec for spec in comparison.policies if _runs(spec, loop)]
    protocol = options_of(comparison.protocol)
    return (
        f"python -m kvsim.evaluate MODEL {texts} --policies '{';'.join(policies)}' "
        f"--budgets {','.join(comparison.points.index)}{protocol} --seed {comparison.seed}"
        f" {options} -o {comparison.results.path}"
    )


def _runs(spec: str, loop: str) -> bool:
    """Whether the loop takes a policy. One that only the user's own code defines may be asked."""
    try:
        (flags,) = _engine.specs(spec, "uniform")
    except KvsimError:
        return True
    if loop == "imposed":
        return refused_by_imposed(flags) is None
    return not any(flags[name] for name in ("is_oracle", "sees_full_attention", "selects"))


def _plan(closed: ClosedLoop, measure: str) -> Plan | None:
    name, title, label, caption = _CURVES[measure]
    if not closed.has(measure):
        if measure == "answers_share":
            why = "No text has a span labelled answer: give the texts as JSON lines with spans."
            loop = f"--loop {closed.loop}"
            return Missing(name, title, why, command(closed.comparison, loop, "--texts FILE.jsonl"))
        if measure == "kept_overlap":
            why = "It needs rows of the adaptive loop, in which policies see the evicting model."
            return Missing(name, title, why, command(closed.comparison, "--loop adaptive"))
        return None
    caption = caption.format(better=better(measure))
    loop = "adaptive" if measure == "kept_overlap" else closed.loop
    text = caption + _PLAIN[loop] + sentence(closed.comparison) + _bars(closed.texts_of(measure))
    if measure != "kl_mean":
        return curves.drawing(closed, measure, name, title, label, text)
    text += "".join(f" {note}" for note in closed.notes)
    tables = tuple(_table(closed, point) for point in closed.points.index)
    return replace(curves.drawing(closed, measure, name, title, label, text), tables=tables)


def _table(closed: ClosedLoop, point: str) -> Table:
    """All policies at one budget, the least KL first."""
    measures = {
        "kl_mean": "KL (nats)",
        "delta_nll": "increase of NLL (nats)",
        "answers_share": "right answers (0–1)",
        "kept_overlap": "overlap of kept sets (0–1)",
    }
    measures = {name: head for name, head in measures.items() if closed.has(name)}
    rows = closed.means.xs(point, level="point").dropna(how="all").sort_values("kl_mean")
    return Table(
        f"The running model at {closed.budget_name(point)}, {closed.loop} loop",
        ("policy", *measures.values()),
        tuple(
            ((closed.styles[spec].label, ""), *(_cell(row, name) for name in measures))
            for spec, row in rows.iterrows()
        ),
    )


def _cell(row: pd.Series, measure: str) -> tuple[str, str]:
    value, low, high = row[measure], row[f"{measure}_low"], row[f"{measure}_high"]
    if pd.isna(value):
        return "–", ""
    text = f"{round(value, 4) + 0.0:.4f}".replace("-", "−")
    return text, "" if round(low, 4) == round(high, 4) else span(low, high, 4)


def _bars(texts: int) -> str:
    if texts == 1:
        return " One text gives no intervals."
    return f" Bars: 95% intervals of the mean over {texts} texts."
