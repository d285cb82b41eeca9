"""What a paper claims, what a model shows, and whether the two agree."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1

from ..bootstrap import FEWEST_SAMPLES
from .intervals import Interval, interval_of
from .rows import Quantity, Rows, Side

HOLDS, REVERSED, UNDECIDED = "holds", "reversed", "not distinguishable"
NO_CLAIM = "the paper claims nothing here"
SELF_BLEU = "Self-BLEU"
CANNOT = "cannot be shown here, because "


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, the cell or the sentence that makes it, and its numbers."""

    paper: str
    cell: str
    says: str
    numbers: str = ""


@dataclass(frozen=True)
class Finding:
    """A claim next to what the model shows: a row of the printed table.

    `first` is what the claim calls better (or as good), `second` what it is compared with.
    `difference` is first - second, or for perplexity its share of the second; `low` and `high` are
    the ends of its 95% interval over texts. They are None where nothing was measured, the interval
    also of a single text.
    """

    claim: Claim
    verdict: str
    texts: str = ""
    measure: str = ""
    first: str = ""
    first_value: float | None = None
    second: str = ""
    second_value: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    samples: int = 0
    loop: str = ""
    mode: str = ""
    as_percent: bool = False

    def conditions(self) -> str:
        """On which texts and how it was measured."""
        return ", ".join(filter(None, (self.texts, self.loop, self.mode)))

    def shown(self) -> str:
        """What the model shows, in words."""
        if self.difference is None:
            return self.measure
        digits = 4 if self.measure == SELF_BLEU else 3
        values = f"{self.first} {self.first_value:.{digits}f}, "
        values += f"{self.second} {self.second_value:.{digits}f}"
        known = [each for each in (self.difference, self.low, self.high) if each is not None]
        texts = [_signed(each, digits, self.as_percent) for each in known]
        interval = f" [{texts[1]}, {texts[2]}]" if len(texts) == 3 else ""
        return f"{self.measure}: {values}: {texts[0]}{interval}"


def verdict_of(interval: Interval, higher_is_better: bool, margin: float = 0.0) -> str:
    """Whether an interval of first - second supports that the first is better.

    With a margin: that the first is not worse by more than the margin.
    """
    if interval.samples < FEWEST_SAMPLES or interval.low is None or interval.high is None:
        texts = "1 text is" if interval.samples == 1 else f"{interval.samples} texts are"
        return f"{CANNOT}{texts} too few; give {FEWEST_SAMPLES}"
    low, high = interval.low, interval.high
    if not higher_is_better:
        low, high = -high, -low
    if low > 0 or (margin > 0 and low >= -margin):
        return HOLDS
    return REVERSED if high < -margin else UNDECIDED


def judged(
    claim: Claim,
    rows: Rows,
    quantity: Quantity,
    first: Side,
    second: Side,
    *,
    margin: float = 0.0,
    claimed: bool = True,
) -> Finding:
    """Compares two sides on the same texts.

    `claimed` False: the paper says nothing of this point, so that the finding has no verdict.
    """
    a, b = rows.values(first, quantity), rows.values(second, quantity)
    reason = rows.unfit(quantity)
    if a.empty or b.empty:
        missing = reason or f"no text was measured with {first.label}"
        return Finding(
            claim, CANNOT + missing, rows.texts, quantity.name, loop=rows.loop, mode=rows.mode
        )
    interval = interval_of(a - b)
    verdict = verdict_of(interval, quantity.higher_is_better, margin)
    if not claimed:
        verdict = NO_CLAIM
    elif reason is not None:
        verdict = CANNOT + reason
    scaled, value = _unchanged, _unchanged
    if quantity.is_perplexity:
        scaled, value = expm1, exp
    low, high = (None if end is None else scaled(end) for end in (interval.low, interval.high))
    return Finding(
        claim, verdict, rows.texts, quantity.name,
        first.label, value(a.mean()), second.label, value(b.mean()),
        scaled(interval.mean), low, high, interval.samples, rows.loop, rows.mode,
        quantity.is_perplexity,
    )  # fmt: skip


def _unchanged(number: float) -> float:
    return float(number)


def _signed(number: float, digits: int, as_percent: bool) -> str:
    """With its sign, and without one that rounding leaves of a 0."""
    if as_percent:
        return f"{round(100 * number, 1) + 0.0:+.1f}%"
    return f"{round(number, digits) + 0.0:+.{digits}f}"
