"""A canonical spec in its parts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """A policy, a combinator or a split, with all its parameters."""

    name: str
    parameters: dict[str, str]


@dataclass(frozen=True)
class Parts:
    base: str  # the text of the policy alone
    policy: Part
    combinators: tuple[Part, ...]
    split: Part | None


def parts_of(spec: str) -> Parts:
    whole, _, split = spec.partition("@")
    base, *combinators = whole.split("+")
    return Parts(base, _part(base), tuple(map(_part, combinators)), _part(split) if split else None)


def _part(text: str) -> Part:
    name, _, settings = text.partition(":")
    pairs = (setting.partition("=") for setting in settings.split(",") if setting)
    return Part(name, {key: value for key, _, value in pairs})
