"""Specs as Python completes and checks them: `kvsim.specs`, made of the registry of policies."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Iterable
from typing import Any

from ..errors import UsageError
from . import entry_points, packages


class Spec(str):
    """The spec of a policy: a text, which every function takes where it takes a policy.

    A sum of it and another one, or a text, is the policy with a combinator: ``h2o+quant:bits=4``.
    """

    __slots__ = ()

    def __add__(self, other: str) -> Spec:
        if not isinstance(other, str):
            return NotImplemented
        return Spec(f"{self!s}+{other.removeprefix('+')!s}")


class PolicySpec(Spec):
    """A policy at its defaults, which makes the spec of others when it is called."""

    def __new__(cls, row: dict[str, Any]) -> PolicySpec:
        spec = super().__new__(cls, row["name"])
        spec._names = {_identifier(name): name for name, *_ in row["parameters"]}
        if row["presets"]:
            spec._names["preset"] = "preset"
        spec.__name__ = _identifier(row["name"])
        spec.__doc__ = _documentation(row)
        spec.__signature__ = _signature(row)
        return spec

    def __call__(self, **values: Any) -> Spec:
        settings = []
        for name, value in values.items():
            if name not in self._names:
                known = ", ".join(self._names) or "none"
                raise UsageError(
                    f"kvsim.specs.{self.__name__}: expected parameters out of {known}, found "
                    f"{name}; leave it out or name one of these"
                )
            settings.append(f"{self._names[name]}={_text_of(value)}")
        return Spec(f"{self!s}:{','.join(settings)}" if settings else str(self))

    def __reduce__(self) -> tuple:
        return (Spec, (str(self),))  # in another process it is the text


class Specs:
    """The specs of all policies, each as an attribute; those of your own and of plug-ins, too.

    A hyphen in a name is an underscore here. A list of values stands for one spec per value.

    Raises
    ------
    AttributeError
        For a name that no policy has.
    UsageError
        When one is called with a parameter that the policy does not have.

    Examples
    --------
    >>> kvsim.specs.h2o(recent=0.25)
    'h2o:recent=0.25'
    >>> kvsim.sweep(trace, [kvsim.specs.tova, kvsim.specs.h2o(recent=[0.25, 0.5])], ["10%"])
    """

    def __getattr__(self, name: str) -> PolicySpec:
        if not name.startswith("_"):
            _load(name)
            for row in _rows():
                if _identifier(row["name"]) == name:
                    return PolicySpec(row)
        raise AttributeError(f"kvsim.specs: no policy is named {name!r}; dir(kvsim.specs) has all")

    def __dir__(self) -> list[str]:
        names = [row["name"] for row in _rows()] + [*packages.declared(packages.POLICIES)]
        return [_identifier(name) for name in dict.fromkeys(names)]


specs = Specs()


def _rows() -> list[dict[str, Any]]:
    from .. import _engine

    return _engine.policies()


def _load(identifier: str) -> None:
    """Loads the policy of a package that has this name here, if none is registered."""
    known = {row["name"] for row in _rows()}
    for name in packages.declared(packages.POLICIES):
        if _identifier(name) == identifier and name not in known:
            try:
                entry_points.find_policy(name)
            except UsageError as error:
                raise AttributeError(f"kvsim.specs: {error}") from error


def _identifier(name: str) -> str:
    """A name of specs as one of Python."""
    found = name.replace("-", "_")
    return f"{found}_" if keyword.iskeyword(found) else found


def _text_of(value: Any) -> str:
    if isinstance(value, Iterable) and not isinstance(value, str):
        return "{" + ",".join(map(_text_of, value)) + "}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _signature(row: dict[str, Any]) -> inspect.Signature:
    defaults = {_identifier(name): _value_of(default) for name, default, *_ in row["parameters"]}
    if row["presets"]:
        defaults["preset"] = None
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Signature(
        [inspect.Parameter(name, kind, default=default) for name, default in defaults.items()]
    )


def _value_of(default: str) -> int | float | str:
    """A default as one writes it in Python."""
    for kind in (int, float):
        try:
            return kind(default)
        except ValueError:
            continue
    return default


def _documentation(row: dict[str, Any]) -> str:
    parts = [f"Keeps {row['keeps']}." if row["keeps"] else "", row["source"]]
    lines = [
        f"{_identifier(name)} : {allowed}, default {default}\n    {about}"
        for name, default, about, allowed in row["parameters"]
    ]
    lines += [
        f"preset={name!r} : {settings or 'the defaults'}\n    {reproduces}"
        for name, settings, reproduces in row["presets"]
    ]
    if lines:
        parts.append("\n".join(["Parameters", "----------", *lines]))
    return "\n\n".join(part for part in parts if part)
