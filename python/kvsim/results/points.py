"""Budgets as they were asked for: what rows of texts of several lengths have in common."""

import pandas as pd


def with_points(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with a column `point`: the budget as requested.

    `rows` has the columns sequence, budget and budget_request.
    """
    # A share gives another number of tokens in each sequence, so a point is a request. If two
    # requests give the same tokens, a row has the one that came first: take the most frequent one.
    counts = rows.groupby(["sequence", "budget", "budget_request"]).size()
    order = counts.reset_index(name="rows").sort_values("rows", ascending=False, kind="stable")
    meant = order.drop_duplicates(["sequence", "budget"]).set_index(["sequence", "budget"])
    keys = pd.MultiIndex.from_frame(rows[["sequence", "budget"]])
    return rows.assign(point=meant["budget_request"].reindex(keys).to_numpy())
