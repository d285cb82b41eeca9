"""Reads rows of a result file as the report needs them."""

import pandas as pd

from ..results import Results, ResultsError


def with_columns(results: Results, table: str, columns: list[str]) -> pd.DataFrame:
    """The table. Raises ResultsError if it lacks one of the columns."""
    frame = results[table]
    for column in columns:
        if column not in frame:
            raise ResultsError(
                f"{results.path}: expected a result file of kvsim sweep, found a table {table} "
                f"without a column {column}"
            )
    return frame


def given_labels(rows: pd.DataFrame) -> dict[str, str]:
    """The labels that the sweep gave to policies. A file may lack the column."""
    if "label" not in rows:
        return {}
    given = rows[rows["label"].notna()].drop_duplicates("policy", keep="last")
    return dict(zip(given["policy"], given["label"].astype(str)))


def with_points(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with a column `point`: the budget as requested in the sweep."""
    # A share gives another number of tokens in each sequence, so a point is a request. If two
    # requests give the same tokens, a row has the one that came first: take the most frequent one.
    counts = rows.groupby(["sequence", "budget", "budget_request"]).size()
    order = counts.reset_index(name="rows").sort_values("rows", ascending=False, kind="stable")
    meant = order.drop_duplicates(["sequence", "budget"]).set_index(["sequence", "budget"])
    keys = pd.MultiIndex.from_frame(rows[["sequence", "budget"]])
    return rows.assign(point=meant["budget_request"].reindex(keys).to_numpy())
