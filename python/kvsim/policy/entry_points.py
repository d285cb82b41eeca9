"""Loads what installed packages declare, when a name is first used or listed."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
from collections.abc import Iterable
from typing import Any

from ..errors import UsageError
from .packages import (
    KINDS,
    POLICIES,
    SECONDS_KEPT,
    SELECTORS,
    Declared,
    Package,
    declared,
    set_package,
)
from .policy import Policy, name_of
from .selector import Selector, selector_name

_NAMES = re.compile(r"(?:^|;)\s*([a-z][a-z0-9_-]*)")  # with which specs of a list begin
_files: dict[str, Package] = {}  # of compiled policies, by name
_failures: dict[tuple[str, str], tuple[float, str]] = {}


def find_policy(name: str) -> bool:
    """Registers the policy of a package that has this name. Returns whether there is one.

    Raises UsageError if it does not work. The engine calls this function for unknown names.
    """
    return find(POLICIES, name)


def find_selector(name: str) -> bool:
    """The same for selectors."""
    return find(SELECTORS, name)


def find_written(specs: Iterable[str]) -> None:
    """Registers what specs name, if packages have it, on the thread of the caller.

    The engine would do so on one of its own, where code of a package may not expect to be. What
    does not work is left to the engine, which then asks for it and reports it.
    """
    from .. import _engine

    names = {name for spec in specs for name in _NAMES.findall(spec)}
    names -= {row["name"] for row in (*_engine.policies(), *_engine.selectors())}
    names -= {"all", "oracles", "recipe"}
    for group in (POLICIES, SELECTORS) if names else ():
        for name in names & declared(group).keys():
            with contextlib.suppress(UsageError):
                find(group, name)


def load_all(group: str) -> list[str]:
    """Registers all that are declared. Returns a line for each that is left out."""
    from .. import _engine

    rows = _engine.policies() if group == POLICIES else _engine.selectors()
    origins = {row["name"]: row["origin"] for row in rows}
    left_out = []
    for name, several in sorted(declared(group).items()):
        if origins.get(name) == "":
            left_out += [
                f"{KINDS[group]} '{name}' of {each.package}: one that is built in has this name; "
                "the package's is left out until it declares another"
                for each in several
            ]
            continue
        try:
            if name not in origins:
                find(group, name)
        except UsageError as error:
            left_out.append(str(error))
    return left_out


def origin_of(row: dict[str, Any], cls: type | None) -> str:
    """Where a registered policy or selector is from, for people."""
    if row["origin"] == "Python":
        package = None if cls is None else vars(cls).get("_kvsim_package")
        return row["origin"] if package is None else str(package)
    if row["name"] in _files:
        return f"{_files[row['name']]} ({row['origin']})"
    return row["origin"]


def find(group: str, name: str) -> bool:
    """As `find_policy`, in either group."""
    several = declared(group).get(name, [])
    if not several:
        return False
    failed, message = _failures.get((group, name), (-SECONDS_KEPT, ""))
    if time.monotonic() - failed < SECONDS_KEPT:
        raise UsageError(message)
    try:  # under no lock: the code of a package may start threads and processes, and replay
        _load(several)
    except UsageError as error:
        _failures[group, name] = time.monotonic(), str(error)
        raise
    return True


def _load(several: list[Declared]) -> None:
    one = several[0]
    if len(several) > 1:
        names = " and ".join(str(each.package) for each in several)
        raise UsageError(
            f"{KINDS[one.group]} '{one.name}': expected one package that declares it, found "
            f"{names}; uninstall all but one"
        )
    found = _called(one, one.entry.load)
    if isinstance(found, type):
        _register(one, found)
        return
    if one.group == POLICIES and callable(found):
        found = _called(one, found)
    if one.group == SELECTORS or not isinstance(found, str | os.PathLike):
        expected = "a class below kvsim.Selector"
        if one.group == POLICIES:
            expected = "a class below kvsim.Policy, or the path of a compiled plug-in"
        raise one.error(
            f"{one.value} is expected to be {expected}, found {type(found).__name__}",
            "correct the entry point",
        )
    _load_file(one, os.fspath(found))


def _called(one: Declared, function: Any) -> Any:
    try:
        return function()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit, and what tests skip with
        reason = _reason_of(error)
        raise one.error(
            f"{one.value} does not load ({reason})",
            "repair or uninstall the package, or set KVSIM_NO_PLUGINS=1",
        ) from error


def _reason_of(error: BaseException) -> str:
    """An error in one line; its own text is code of the package, too."""
    try:
        text = str(error)
    except Exception:
        text = "without a text"
    return " ".join(f"{type(error).__name__}: {text}".split())


def _register(one: Declared, cls: type) -> None:
    base, method, register = Policy, "update", name_of
    if one.group == SELECTORS:
        base, method, register = Selector, "choose", selector_name
    if not issubclass(cls, base) or getattr(cls, method) is getattr(base, method):
        raise one.error(
            f"expected a class below kvsim.{base.__name__} that has {method}, found {one.value}",
            "correct the entry point",
        )
    if cls.name != one.name:
        raise one.error(
            f"the name of the class {one.value} is '{cls.name}'",
            "declare it by that name, or change the attribute name",
        )
    set_package(cls, one.package)
    _called(one, functools.partial(register, cls))


def _load_file(one: Declared, file: str) -> None:
    from .. import _engine

    names, _ = _called(one, functools.partial(_engine.load_plugin, file))
    if one.name not in names:
        raise one.error(
            f"expected a plug-in with this policy, found {', '.join(names) or 'none'} in {file}",
            "correct the entry point",
        )
    _files[one.name] = one.package
