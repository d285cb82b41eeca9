"""What a caller says about a text before it is recorded."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..errors import UsageError
from ..trace.names import NAME_FORM, is_name
from ..trace.spans import Span, checked_spans


@dataclass(frozen=True)
class Label:
    """What the caller says about a sequence before it begins."""

    name: str
    source: str
    prompt_length: int | None  # None: what `generate` reads, else nothing
    spans: tuple[Span, ...] = ()  # of tokens


def labels_of(
    names: Sequence[str],
    source: str,
    prompt_length: int | None,
    spans: Sequence[Iterable[tuple[int, int, str]]] | None,
) -> list[Label]:
    """The labels of the next texts, as `label` of a recorder takes them. Raises UsageError."""
    if isinstance(names, str):
        raise UsageError(f"names: expected a list of names, found the text {names!r}")
    names = list(names)
    parts = [()] * len(names) if spans is None else [_spans_of_one(each) for each in spans]
    if len(parts) != len(names):
        raise UsageError(
            f"spans: expected a list for each of {len(names)} names, found {len(parts)}"
        )
    if wrong := [name for name in names if not is_name(name)]:
        raise UsageError(f"sequence name: expected {NAME_FORM}, found {wrong[0]!r}")
    return [Label(name, source, prompt_length, own) for name, own in zip(names, parts, strict=True)]


def _spans_of_one(spans: Iterable[tuple[int, int, str]]) -> tuple[Span, ...]:
    if not isinstance(spans, Iterable) or isinstance(spans, str):
        raise UsageError(
            f"spans: expected for each name a list of (start, end, label), found {spans!r}"
        )
    return checked_spans(spans, None)


def checked_prompt(prompt_length: int | None) -> int | None:
    if prompt_length is not None and prompt_length < 0:
        raise UsageError(f"prompt_length: expected 0 (none) or more tokens, found {prompt_length}")
    return prompt_length
