"""The policies that there are."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

from ..errors import KvsimWarning
from . import entry_points, packages
from .policy import registered_here

if TYPE_CHECKING:
    import pandas as pd


class Parameter(NamedTuple):
    """A parameter of a policy: `POLICY:name=value`."""

    name: str
    default: str
    help: str
    allowed: str


class Preset(NamedTuple):
    """Parameters as a paper or a program sets them: `POLICY:preset=name`."""

    name: str
    settings: str
    reproduces: str


def policies() -> pd.DataFrame:
    """The registered policies, those of Python and of plug-ins included: one row each.

    Returns
    -------
    pandas.DataFrame
        Columns: name; keeps (what stays in the cache); source (paper and section); sees (which data
        of a step); needs (what a trace must hold in addition to queries, keys and values, with
        which settings); differences (from the paper or its code); parameters (tuples of name,
        default, help, allowed); presets (tuples of name, settings, reproduces); nests (bool: at its
        defaults it has a curve); oracle (bool: it sees the future); origin ("" if it is built in,
        "Python", the package and its version, or the file of a plug-in); reference (bool: an
        oracle, or a policy by whose recall others are measured); color_place (its place among the
        colours of figures, or among the greys of references; missing if it is not built in).

    Warns
    -----
    KvsimWarning
        Of each policy that a package declares and that does not work.

    Examples
    --------
    >>> kvsim.policies().set_index("name").loc["h2o"].keeps
    """
    import pandas as pd

    from .. import _engine

    for left_out in entry_points.load_all(packages.POLICIES):
        warnings.warn(left_out, KvsimWarning, stacklevel=2)
    rows = _engine.policies()
    for row in rows:
        row["origin"] = entry_points.origin_of(row, registered_here(row["name"]))
        row["parameters"] = tuple(Parameter(*each) for each in row["parameters"])
        row["presets"] = tuple(Preset(*each) for each in row["presets"])
    return pd.DataFrame(rows).astype({"color_place": "Int64"})
