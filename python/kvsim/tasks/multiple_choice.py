"""Which choice a model thinks likeliest, with the full cache and with an evicting one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError
from .few_shot import NAME_OF_CHOICE

if TYPE_CHECKING:
    import pandas as pd

KEY = ["policy", "budget_request", "mode", "loop", "seed"]


def multiple_choice(rows: pd.DataFrame, texts: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Accuracy on texts of few_shot(..., choices=True), one for each choice.

    Parameters
    ----------
    rows : pandas.DataFrame
        Rows of the table `closed_loop`.
    texts : iterable of dict
        The texts that were evaluated.

    Returns
    -------
    pandas.DataFrame
        One row per policy, budget as requested, mode, loop and seed, in the order of `rows`:
        `questions`; `accuracy_full` and `accuracy`, with the full cache and under the policy;
        `difference`, the second less the first, with the ends `low` and `high` of its 95% interval
        (bootstrap over questions, NaN for one).

    Raises
    ------
    DataError
        For rows without choices, or that lack a question or a choice of it, for rows without
        likelihoods, and for choices that were read with different budgets in tokens: in stream mode
        a percentage is of a text's own length.

    Notes
    -----
    The model answers with the choice after which the sum of log-probabilities over the measured
    steps, `-nll * (steps - 1)`, is largest: texts of one question differ in the choice alone. That
    is `acc` of lm-eval; its `acc_norm` divides the part of the choice by its length.

    Examples
    --------
    >>> texts = list(kvsim.tasks.few_shot(questions, 5, choices=True))
    >>> frame = kvsim.evaluate(model, texts, "full;h2o", ["20%"], mode="prefill")
    >>> kvsim.tasks.multiple_choice(frame, texts)
    """
    import pandas as pd

    from ..closed_loop.prediction import interval_over_texts

    right = {
        str(text["name"]): any(label == "answer" for _, _, label in text["spans"])
        for text in texts
        if NAME_OF_CHOICE in str(text["name"])
    }
    wanted = pd.Series({name: _question(name) for name in right}, dtype=str).value_counts(
        sort=False
    )
    rows = rows[rows["sequence"].isin(right.keys())]
    if rows.empty:
        raise DataError(
            "expected rows of texts that few_shot(..., choices=True) made, a text per choice, "
            "found none; evaluate these texts"
        )
    _check_likelihoods(rows)
    rows = rows.assign(
        question=rows["sequence"].map(_question),
        is_right=rows["sequence"].map(right),
        full=-rows["nll_full"] * (rows["steps"] - 1),
        evicting=-rows["nll"] * (rows["steps"] - 1),
    )
    found = []
    for values, group in rows.groupby(KEY, sort=False, dropna=False):
        key = dict(zip(KEY, values, strict=True))
        questions = group.groupby("question", sort=False)
        _check(key, questions, wanted)
        chosen = {
            of: group.loc[questions[of].idxmax(), "is_right"].to_numpy(float)
            for of in ("full", "evicting")
        }
        differences = chosen["evicting"] - chosen["full"]
        low, high = interval_over_texts(differences)
        found.append(
            key
            | {
                "questions": len(differences),
                "accuracy_full": float(np.mean(chosen["full"])),
                "accuracy": float(np.mean(chosen["evicting"])),
                "difference": float(np.mean(differences)),
                "low": low,
                "high": high,
            }
        )
    return pd.DataFrame(found)


def _question(name: str) -> str:
    """The question of the text of a choice."""
    return name.rpartition(NAME_OF_CHOICE)[0]


def _check_likelihoods(rows: pd.DataFrame) -> None:
    lacking = rows[rows[["nll_full", "nll"]].isna().any(axis=1)]
    for row in lacking.to_dict("records"):
        raise DataError(
            f"{row['sequence']} with {row['policy']} at {row['budget_request']}: expected nll_full "
            "and nll, found none; evaluate texts whose prompt ends two or more tokens before "
            "their end, with a model whose logits are finite"
        )


def _check(key: Mapping[str, Any], questions: Any, wanted: pd.Series) -> None:
    missing = [name for name in wanted.index if name not in questions.groups]
    if missing:
        raise DataError(
            f"{key['policy']} at {key['budget_request']}: expected rows of {len(wanted)} "
            f"questions, found none of {missing[0]}; evaluate all texts, or give those alone that "
            "were evaluated"
        )
    for name, choices in questions:
        place = f"{name} with {key['policy']} at {key['budget_request']}"
        if len(choices) != wanted[name]:
            raise DataError(
                f"{place}: expected rows of its {wanted[name]} choices, found {len(choices)}; "
                "evaluate all texts"
            )
        if choices["budget"].nunique() > 1 and key["policy"] != "full":
            budgets = ", ".join(str(budget) for budget in sorted(choices["budget"].unique()))
            raise DataError(
                f"{place}: its choices were read with budgets of {budgets} tokens; use mode "
                "prefill, or give budgets in tokens"
            )
