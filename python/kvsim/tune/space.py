"""The space of a search: specs with choices and ranges, and parts that each of them may have."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from .. import _engine
from ..errors import DataError, UsageError

DEFAULT = (
    "h2o:recent={0..0.9};tova;snapkv:window={4,8,16,32},kernel={1,3,5,7};vatp:recent={0..0.9};"
    "lookback:window={4,8,16,32};obcache:recent={0..0.9};keydiff;knorm;lru;sink:sinks={1..16};"
    "+protect:first={1,4,16};@pyramid;@adaptive;@cake"
)
WITHOUT = "without"
_DIGITS = 4  # of a real number, which specs show
_INTEGER = re.compile(r"[0-9]{1,9}")
_REAL = re.compile(r"[0-9]*\.?[0-9]+(e[-+]?[0-9]+)?|[0-9]+\.")


@dataclass(frozen=True)
class Hole:
    """Braces in a spec: one of some texts, or a number of a range with both ends."""

    name: str
    choices: tuple[str, ...] = ()
    low: float = 0
    high: float = 0
    is_real: bool = False

    @property
    def count(self) -> float:
        """Of values; infinite in a range of reals."""
        if self.choices:
            return len(self.choices)
        return math.inf if self.is_real else self.high - self.low + 1

    @property
    def ends(self) -> list[str]:
        """Values that stand for all: every choice, or both ends."""
        return list(self.choices) or [self.written(self.low), self.written(self.high)]

    def written(self, value: float) -> str:
        """A number as a spec has it. A real one keeps its point, which makes it a share, but for 0:
        a share is above it."""
        if not self.is_real or value == 0:
            return str(int(value))
        return np.format_float_positional(float(f"{value:.{_DIGITS}g}"), trim="0")


Choose = Callable[[Hole], str]


@dataclass(frozen=True)
class Part:
    """A spec, or what may be added to one, with holes between its literals."""

    text: str
    literals: tuple[str, ...]  # one more than holes
    holes: tuple[Hole, ...]

    def filled(self, choose: Choose) -> str:
        values = [choose(hole) for hole in self.holes]
        return "".join(a + b for a, b in zip(self.literals, [*values, ""], strict=True))

    @property
    def first(self) -> str:
        return self.filled(lambda hole: hole.ends[0])

    @property
    def count(self) -> float:
        return math.prod(hole.count for hole in self.holes)

    def samples(self) -> Iterator[str]:
        """The part at each end of each hole, the others at their first."""
        yield self.first
        firsts = {hole.name: hole.ends[0] for hole in self.holes}
        for hole in self.holes:
            for value in hole.ends[1:]:
                values = firsts | {hole.name: value}
                yield self.filled(lambda each, values=values: values[each.name])


@dataclass
class Space:
    """All specs that a search may try."""

    text: str
    policies: list[Part]
    additions: list[Part]  # combinators, each of which a policy may have
    splits: list[Part]  # of the budget, one of which it may have
    fits: dict[tuple[str, str], bool] = field(default_factory=dict)  # of a policy and an addition

    @property
    def size(self) -> float:
        """How many specs it has; infinite with a range of reals."""
        total = 0.0
        for policy in self.policies:
            added = [1 + part.count for part in self.additions if self.fits[policy.text, part.text]]
            splits = [part.count for part in self.splits if self.fits[policy.text, part.text]]
            total += policy.count * math.prod(added) * (1 + sum(splits))
        return total

    def spec(self, choose: Choose) -> str:
        """A spec whose parts are chosen one after the other; holes are asked for only as needed."""
        by_text = {part.text: part for part in self.policies}
        policy = by_text[choose(Hole("policy", tuple(by_text)))]
        text = policy.filled(choose)
        for part in self.additions:
            if self.fits[policy.text, part.text]:
                answers = (WITHOUT, "with")
                if choose(Hole(part.text, answers)) != WITHOUT:
                    text = with_part(text, part.filled(choose))
        splits = {part.text: part for part in self.splits if self.fits[policy.text, part.text]}
        if splits:
            chosen = choose(Hole("|".join(splits), (WITHOUT, *splits)))
            text += splits[chosen].filled(choose) if chosen != WITHOUT else ""
        return text

    def samples(self) -> Iterator[str]:
        """Each policy at the ends of its holes, and what fits it, at the ends of its own."""
        for policy in self.policies:
            yield from policy.samples()
            for part in (*self.additions, *self.splits):
                if self.fits[policy.text, part.text]:
                    yield from (with_part(policy.first, sample) for sample in part.samples())

    def every(self) -> Iterator[dict[str, str | int]]:
        """What is chosen for each spec of a finite space: values by the names of holes."""
        places: list[int] = []  # of the value of each hole that was asked for
        while True:
            asked = _Asked(places)
            self.spec(asked)
            yield dict(zip(asked.names, asked.values))
            places, counts = asked.places, asked.counts
            while places and places[-1] + 1 == counts[len(places) - 1]:
                places = places[:-1]
            if not places:
                return
            places = [*places[:-1], places[-1] + 1]


class _Asked:
    """Gives each hole the value at its place, the first one to holes beyond these places."""

    def __init__(self, places: list[int]) -> None:
        self.names: list[str] = []
        self.values: list[str | int] = []
        self.places: list[int] = []
        self.counts: list[int] = []
        self._wanted = places

    def __call__(self, hole: Hole) -> str:
        index = len(self.places)
        place = self._wanted[index] if index < len(self._wanted) else 0
        values = hole.choices or range(int(hole.low), int(hole.high) + 1)
        self.names.append(hole.name)
        self.values.append(values[place])
        self.places.append(place)
        self.counts.append(len(values))
        return str(values[place])


def parse_space(text: str, why_not: Callable[[dict[str, object]], str | None]) -> Space:
    """Parses a space, of which every part has to fit the policies that it is for.

    `why_not` gets the flags of a spec (those of _engine.specs) and says why a search cannot use it.
    Raises UsageError, which names the part, for a space that cannot be meant.
    """
    parts = [each.strip() for each in _split_outside_braces(text)]
    parts = list(dict.fromkeys(filter(None, parts)))
    parsed = [_part(each) for each in parts]
    space = Space(
        text=";".join(parts),
        policies=[part for part in parsed if part.text[0] not in "+@"],
        additions=[part for part in parsed if part.text[0] == "+"],
        splits=[part for part in parsed if part.text[0] == "@"],
    )
    if not space.policies:
        raise UsageError(f"space '{text}': expected at least one policy; write h2o:recent={{0..1}}")
    for policy in space.policies:
        for sample in policy.samples():
            _check(policy, sample, why_not)
    for addition in (*space.additions, *space.splits):
        _fit(space, addition, why_not)
    return space


def with_part(spec: str, part: str) -> str:
    """The spec with a combinator, which stands before a split that it has, or with a split."""
    policy, at, split = spec.partition("@")
    return policy + part + at + split if part[0] == "+" else spec + part


def _fit(space: Space, addition: Part, why_not: Callable[..., str | None]) -> None:
    """Finds the policies that the addition fits. Raises UsageError if there is none."""
    refused = None
    for policy in space.policies:
        try:
            for sample in addition.samples():
                _check(addition, with_part(policy.first, sample), why_not)
        except UsageError as error:
            refused = refused or error
            space.fits[policy.text, addition.text] = False
        else:
            space.fits[policy.text, addition.text] = True
    if not any(space.fits[policy.text, addition.text] for policy in space.policies):
        raise refused


def _check(part: Part, spec: str, why_not: Callable[..., str | None]) -> None:
    try:
        (flags,) = _engine.specs([spec], "uniform")
    except (UsageError, DataError) as error:
        raise type(error)(f"space '{part.text}': {error}") from None
    except ValueError:
        raise UsageError(f"space '{part.text}': expected one policy, found a list") from None
    reason = why_not(flags)
    if reason is not None:
        raise UsageError(f"space '{part.text}': {reason}; leave it out")


def _part(text: str) -> Part:
    literals, holes = [], []
    rest = text
    while rest:
        literal, brace, rest = rest.partition("{")
        if "}" in literal:
            raise UsageError(f"space '{text}': a '}}' has no '{{' before it")
        literals.append(literal)
        if not brace:
            break
        inside, closing, rest = rest.partition("}")
        if not closing or "{" in inside:
            raise UsageError(f"space '{text}': a '{{' is not closed; write recent={{0..0.9}}")
        holes.append(_hole(text, f"{text}#{len(holes)}", inside))
        if not rest:
            literals.append("")
    return Part(text, tuple(literals), tuple(holes))


def _hole(text: str, name: str, inside: str) -> Hole:
    if ".." not in inside:
        choices = inside.split(",")
        if not all(choices):
            raise UsageError(f"space '{text}': '{{{inside}}}' has an empty entry")
        return Hole(name, tuple(dict.fromkeys(choices)))
    low, _, high = inside.partition("..")
    is_integer = bool(_INTEGER.fullmatch(low) and _INTEGER.fullmatch(high))
    if not is_integer and not (_REAL.fullmatch(low) and _REAL.fullmatch(high)):
        raise UsageError(
            f"space '{text}': '{{{inside}}}': expected a range of numbers such as {{0..0.9}}, "
            "{1..64}, or a list such as {0,4,16}"
        )
    if float(low) >= float(high):
        raise UsageError(f"space '{text}': '{{{inside}}}': the range is empty; write low..high")
    return Hole(name, low=float(low), high=float(high), is_real=not is_integer)


def _split_outside_braces(text: str) -> list[str]:
    return re.split(r";(?![^{]*\})", text)
