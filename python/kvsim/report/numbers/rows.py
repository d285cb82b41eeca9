"""Reads rows of a result file as the report needs them."""

from collections import Counter

import pandas as pd

from ...bootstrap import UNIT
from ...results import Results, ResultsError
from ...results.calibration import weighted_errors
from ..style.labels import allocation_of

Units = frozenset[tuple]


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
    labelled = rows[rows["label"].notna()].drop_duplicates("policy", keep="last")
    return dict(zip(labelled["policy"], labelled["label"].astype(str)))


def answering(results: Results) -> pd.DataFrame:
    """The policies of the table `task_answer`, in a column policy, and their labels if it has some.
    Empty without the table."""
    if "task_answer" not in results:
        return pd.DataFrame({"policy": pd.Series(dtype=object)})
    rows = results["task_answer"]
    return rows[[name for name in ("policy", "label") if name in rows]].drop_duplicates()


def first_traces(results: Results, rows: pd.DataFrame) -> pd.Series:
    """The trace that each row is shown with: its own, or the first one of the same model.

    The closed loop may record a trace per text. Its rows say which traces are of one model. Traces
    with a sequence of the same name are shown apart.
    """
    found = dict(zip(rows["trace_id"], rows["trace_id"]))
    if "closed_loop" in results:
        closed = results["closed_loop"][["model_id", "trace_id"]].drop_duplicates()
        names = rows.groupby("trace_id")["sequence"].unique()
        for _, traces in closed[closed["trace_id"].isin(names.index)].groupby("model_id"):
            taken: set[str] = set()
            same = sorted(traces["trace_id"])
            for trace in same:
                if taken.isdisjoint(names[trace]):
                    found[trace] = same[0]
                    taken.update(names[trace])
    return rows["trace_id"].map(found)


def units_of(rows: pd.DataFrame) -> dict[tuple[str, str], Units]:
    """The units of each policy and point."""
    return {
        key: frozenset(zip(*map(group.get, UNIT)))
        for key, group in rows.groupby(["policy", "point"])
    }


def most_common_units(sets: dict[tuple[str, str], Units]) -> Units:
    """The largest set of units; of several, the one that most policies and points have."""
    counts = Counter(sets.values())
    return max(counts, key=lambda found: (len(found), counts[found]), default=frozenset())


def of_most_common_units(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of policies and points that have these units."""
    sets = units_of(rows)
    units = most_common_units(sets)
    whole = [key for key, found in sets.items() if found == units]
    return rows[pd.MultiIndex.from_frame(rows[["policy", "point"]]).isin(whole)]


def errors_of_layers(
    results: Results, measured: pd.DataFrame, measure: str, calibration: Results | None
) -> pd.DataFrame:
    """`projected_error` or `calibrated_kl` of every layer, kv_head 0, of policies and points that
    have it of all layers.

    `measured` are rows of `replay` with a column point. A value is scaled by the layers of its
    sequence, so that the mean over layers is their sum. Empty without such rows.
    """
    key = ["trace_id", "sequence", "layer", "policy", "budget", "mode", "seed"]
    layers = measured[[*key, "point"]].drop_duplicates()
    if "layer_error" not in results:
        return layers.iloc[:0].assign(kv_head=0, **{measure: float("nan")})
    is_weighted = measure == "calibrated_kl"
    errors = weighted_errors(results, calibration) if is_weighted else results["layer_error"]
    rows = layers.merge(errors[[*key, measure]].dropna(), on=key, how="left").assign(kv_head=0)
    lacking = rows[measure].isna().groupby([rows["policy"], rows["point"]])
    rows = rows[~lacking.transform("any")]
    count = rows.groupby(["policy", "point", "trace_id", "sequence"])["layer"].transform("size")
    return rows.assign(**{measure: rows[measure] * count})


def recalls_of(recall: pd.Series | pd.DataFrame, *specs: str) -> list[pd.Series | pd.DataFrame]:
    """The recall of each spec at the budget of each row, which policy and point index.

    It takes the specs with the allocation of the row's policy, as the view `regret` does. If one of
    them is missing, it takes all with an even split of the same number of tokens.
    """
    keys: list[list[tuple[str, str]]] = [[] for _ in specs]
    for policy, point in recall.index:
        alike = [(spec + allocation_of(policy), point) for spec in specs]
        if not all(key in recall.index for key in alike):
            alike = [(spec, point) for spec in specs]
        for found, key in zip(keys, alike):
            found.append(key)
    return [recall.reindex(found).set_axis(recall.index) for found in keys]
