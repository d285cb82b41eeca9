"""Budgets as they were asked for: what rows of texts of several lengths have in common."""

from __future__ import annotations

import pandas as pd


def bytes_of(request: str) -> int | None:
    """The bytes of a budget that is a size, as 64KiB; None for tokens and shares."""
    from .. import _engine

    return _engine.bytes_of_size(str(request))


def with_points(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with a column `point`: the budget as requested.

    `rows` has the columns sequence, budget and budget_request.
    """
    # A share gives another number of tokens in each sequence, so a point is a request. If two
    # requests give the same tokens, a row has the one that came first: take the most frequent one.
    # A size is other tokens for each policy, and stays what the row says.
    asked = {request: bytes_of(request) for request in rows["budget_request"].unique()}
    first = {size: request for request, size in reversed(asked.items()) if size is not None}
    sizes = rows["budget_request"].map(lambda request: first.get(asked[request]))
    counts = rows[sizes.isna()].groupby(["sequence", "budget", "budget_request"]).size()
    order = counts.reset_index(name="rows").sort_values("rows", ascending=False, kind="stable")
    meant = order.drop_duplicates(["sequence", "budget"]).set_index(["sequence", "budget"])
    keys = pd.MultiIndex.from_frame(rows[["sequence", "budget"]])
    of_tokens = pd.Series(meant["budget_request"].reindex(keys).to_numpy(), index=rows.index)
    return rows.assign(point=of_tokens.where(sizes.isna(), sizes).to_numpy())


def in_order(tokens: pd.Series) -> pd.Series:
    """Mean budgets in tokens by point, ascending; where all points are sizes, which are other
    tokens for each policy, by size."""
    return tokens.loc[places(tokens).sort_values(kind="stable").index]


def places(tokens: pd.Series) -> pd.Series:
    """Where points are on an axis: at their bytes where all are sizes, else at their tokens."""
    sizes = [bytes_of(point) for point in tokens.index]
    if not sizes or None in sizes:
        return tokens
    return pd.Series([float(size) for size in sizes], index=tokens.index)


def are_sizes(tokens: pd.Series) -> bool:
    """Whether all points are sizes."""
    return len(tokens) > 0 and all(bytes_of(point) is not None for point in tokens.index)
