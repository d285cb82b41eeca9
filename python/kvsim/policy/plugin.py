"""Plug-ins: policies and analyses compiled elsewhere against `kvsim/plugin.h`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_HEADER = Path("kvsim", "plugin.h")


class Plugin(NamedTuple):
    """The names that a plug-in registered."""

    policies: list[str]
    analyses: list[str]


def load_plugin(file: str | os.PathLike[str]) -> Plugin:
    """Loads a shared library, whose policies and analyses then go by their names everywhere.

    A plug-in stays loaded until Python ends; loading it again does nothing. Call it while no other
    thread replays.

    Parameters
    ----------
    file : path
        The shared library, compiled against `kvsim/plugin.h`.

    Returns
    -------
    Plugin
        Named tuple of the names that it registered: `policies`, `analyses`, lists of str.

    Raises
    ------
    DataError
        If the file is no plug-in for this kvsim, has changed since it was loaded, or has a policy
        or an analysis whose name is taken.

    Examples
    --------
    >>> kvsim.load_plugin("libmine.so")
    Plugin(policies=['mine'], analyses=[])
    >>> kvsim.sweep(trace, policies=["h2o", "mine:decay=0.9"], budgets=["10%"])
    """
    from .. import _engine

    return Plugin(*_engine.load_plugin(os.fspath(file)))


def get_include() -> str:
    """The folder to compile plug-ins against, which holds `kvsim/plugin.h`.

    Returns
    -------
    str
        The path of the folder.

    Raises
    ------
    FileNotFoundError
        If the package is neither installed nor in its source folder.

    Examples
    --------
    >>> subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{kvsim.get_include()}",
    ...                 "mine.c", "-o", "libmine.so"], check=True)
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "include", package.parents[1] / "sim" / "plugin" / "include"):
        if (folder / _HEADER).is_file():
            return str(folder)
    raise FileNotFoundError(f"{package}: {_HEADER} is missing; install kvsim with pip")
