"""Labelled parts of a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..errors import UsageError
from .names import problem_of


class Span(NamedTuple):
    """A labelled part of a text, half open: tokens of a sequence, or characters of its text.

    Attributes
    ----------
    start, end : int
        The first token or character, and the one after the last.
    label : str
        Of the part.
    """

    start: int
    end: int
    label: str


def checked_spans(
    spans: Iterable[tuple[int, int, str]], length: int | None, unit: str = "tokens"
) -> tuple[Span, ...]:
    """The spans of a text of so many units; None: of unknown length.

    Raises UsageError for what is no (start, end, label), for a span that is empty or outside the
    text, and for a label that a trace cannot hold.
    """
    return tuple(_checked(span, length, unit) for span in spans)


def _checked(span: object, length: int | None, unit: str) -> Span:
    is_triple = isinstance(span, Sequence) and not isinstance(span, str) and len(span) == 3
    if not is_triple or not isinstance(span[2], str) or not all(map(_is_whole, span[:2])):
        raise UsageError(f"spans: expected (start, end, label), found {span!r}")
    start, end, label = int(span[0]), int(span[1]), span[2]
    if not 0 <= start < end or (length is not None and end > length):
        where = "start < end" if length is None else f"start < end <= {length}"
        raise UsageError(
            f"spans: expected 0 <= {where} in {unit}, found {start} and {end} of {label!r}"
        )
    if problem := problem_of(label):
        raise UsageError(f"spans: expected a text as label, found {problem}")
    return Span(start, end, label)


def _is_whole(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)
