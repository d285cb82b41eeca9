"""What a row of the table `task_answer` is worth, and which tasks say something about policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

WITHIN_REACH = 0.6  # the full cache's least score at a task that the model can do


def row_scores(rows: pd.DataFrame) -> pd.Series:
    """The share of the answer's values that the generated text contains or, where nothing was
    generated, of those whose tokens are each the most likely one; NaN without values."""
    answers = rows["answers"].astype(float)
    right = rows["answers_right"].astype(float) / answers.where(answers > 0)
    return rows["contains"].astype(float).fillna(right) if "contains" in rows else right
