"""The types and meanings of the columns of a table, from what declares it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..columns import tables
from ..reading import Results, ResultsError

TYPES = ("INTEGER", "REAL", "TEXT")


class Field(NamedTuple):
    """A column."""

    name: str
    type: str  # one of TYPES
    meaning: str
    unit: str  # empty where it has none, or the meaning says it


@dataclass(frozen=True)
class Schema:
    """Of a table or view."""

    table: str
    shows: str  # what a row is
    source: str  # the paper that measures it
    fields: tuple[Field, ...]
    all_names: tuple[str, ...]  # with those that are left out


def schema_of(results: Results, table: str, without: Sequence[str] = ()) -> Schema:
    """As the file declares it; of computed columns of views, as the engine does.

    Raises ResultsError for a column without a type.
    """
    declared = tables().get(table, {})
    types = results._column_types(table)
    about = results._about(table, list(types))
    fields = []
    for name, in_file in types.items():
        type_ = in_file or declared.get("types", {}).get(name, "")
        if type_ not in TYPES:
            raise ResultsError(
                f"{results.path}: {table}.{name}: expected the type {', '.join(TYPES)}, found "
                f"{type_ or 'none'}"
            )
        unit = declared.get("units", {}).get(name, "")
        fields.append(Field(name, type_, about["about"][name], unit))
    left = tuple(field for field in fields if field.name not in without)
    return Schema(table, about["shows"], about["source"], left, tuple(types))
