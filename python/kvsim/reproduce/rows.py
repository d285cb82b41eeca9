"""Rows of table `closed_loop` of one group of texts, as the measures of the papers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from .. import _engine
from ..bootstrap import FEWEST_SAMPLES
from ..report.numbers.protocol import steps_after_prompt
from .intervals import interval_of

if TYPE_CHECKING:
    import pandas as pd


class Side(NamedTuple):
    """One side of a comparison: a policy at a budget. The full cache has no policy."""

    label: str
    policy: str | None = None
    budget: str | None = None


class Quantity(NamedTuple):
    """A measure: its value in a row, for the policy and for the full cache."""

    name: str
    of_policy: Callable[[pd.DataFrame], pd.Series]
    of_full: Callable[[pd.DataFrame], pd.Series]
    higher_is_better: bool
    is_perplexity: bool = False


ANSWERS = Quantity(
    "answers right",
    lambda rows: rows["answers_right"] / rows["answers"],
    lambda rows: rows["answers_right_full"] / rows["answers"],
    higher_is_better=True,
)
NLL = Quantity(
    "nats per token", lambda rows: rows["nll"], lambda rows: rows["nll_full"],
    higher_is_better=False,
)  # fmt: skip
PERPLEXITY = NLL._replace(name="perplexity", is_perplexity=True)
FULL = Side("full")


@dataclass
class Rows:
    """What was measured of a group of texts, with the canonical spec of every policy's name.

    `frame` has the columns of table `closed_loop`; `policies` maps the names that a paper's module
    gives policies to the specs in its column `policy`.
    """

    texts: str
    frame: pd.DataFrame
    policies: dict[str, str]
    unfit_nll: str | None = field(default=None)
    """Why differences of the negative log-likelihood tell nothing."""

    def at(self, policy: str, budget: str) -> Side:
        return Side(f"{policy} at {budget}", policy, budget)

    def values(self, side: Side, quantity: Quantity) -> pd.Series:
        """The value of each text, by its name. Texts without an answer have none of ANSWERS."""
        rows = self.frame
        if side.policy is not None:
            spec = self.policies[side.policy]
            rows = rows[(rows["policy"] == spec) & (rows["budget"] == _tokens(rows, side.budget))]
        rows = rows.drop_duplicates("sequence").set_index("sequence").sort_index()
        if quantity.name == ANSWERS.name:
            rows = rows[rows["answers"] > 0]
        find = quantity.of_full if side.policy is None else quantity.of_policy
        return find(rows).astype(float)

    @property
    def loop(self) -> str:
        return str(self.frame["loop"].iloc[0])

    @property
    def mode(self) -> str:
        return str(self.frame["mode"].iloc[0])

    @property
    def num_answers(self) -> int:
        """How many answers the texts have."""
        return int(self._texts["answers"].fillna(0).sum())

    def unfit(self, quantity: Quantity) -> str | None:
        """Why a verdict on this measure would say nothing of the policies; None: nothing is."""
        if quantity.name != ANSWERS.name:
            return self.unfit_nll
        if self.num_answers == 0:
            return "no text has a measured span that is labelled answer"
        if self._texts["answers_right_full"].fillna(0).sum() == 0:
            return f"the model answers none of {self.num_answers} questions with its full cache"
        return None

    def check_use_of_context(self, window: str) -> None:
        """Refuses verdicts on likelihood where the smallest window beats the full cache.

        Policies that forget would look better than those that keep what matters.
        """
        smallest = self.at(window, self.budgets[0])
        gain = interval_of(self.values(smallest, NLL) - self.values(FULL, NLL))
        if gain.samples >= FEWEST_SAMPLES and gain.high is not None and gain.high < 0:
            self.unfit_nll = (
                f"the model predicts better with {smallest.label} than with its full cache "
                f"({gain.mean:+.3f} nats per token): forgetting helps it"
            )

    @property
    def budgets(self) -> list[str]:
        """The budgets as they were asked for, the smallest first."""
        return list(self.frame.groupby("budget_request")["budget"].mean().sort_values().index)

    def share(self, budget: str) -> float:
        """The budget as a share of the text, or of its prompt where that is cut."""
        if budget.endswith("%"):
            return float(budget[:-1]) / 100
        rows = self.frame[self.frame["budget"] == _tokens(self.frame, budget)]
        return float((rows["budget"] / _whole(rows)).mean())

    @property
    def _texts(self) -> pd.DataFrame:
        return self.frame.drop_duplicates("sequence")


def _whole(rows: pd.DataFrame) -> pd.Series:
    """The tokens of each row's text of which a budget is a share: those of its prompt, if any."""
    return rows["prompt_length"].where(rows["prompt_length"] > 0, steps_after_prompt(rows))


def _tokens(rows: pd.DataFrame, budget: str) -> pd.Series:
    """What a budget comes to on each row's text. Two of a call may come to as many tokens."""
    protocol = _engine.Protocol.of_name(rows["mode"].iloc[0])  # that of all rows of a call

    def tokens(whole: int) -> int:
        return _engine.budgets_of(budget, protocol, whole, whole)[0][1]

    return _whole(rows).map({whole: tokens(int(whole)) for whole in set(_whole(rows))})
