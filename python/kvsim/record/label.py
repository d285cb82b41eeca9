"""What a caller says about a text before it is recorded."""

from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import UsageError
from ..trace.spans import Span, checked_spans


@dataclass(frozen=True)
class Label:
    """What the caller says about a sequence before it begins."""

    name: str
    source: str
    prompt_length: int | None  # None: what `generate` reads, else nothing
    spans: tuple[Span, ...] = ()  # of tokens


def spans_of_one(spans: Iterable[tuple[int, int, str]]) -> tuple[Span, ...]:
    if not isinstance(spans, Iterable) or isinstance(spans, str):
        raise UsageError(
            f"spans: expected for each name a list of (start, end, label), found {spans!r}"
        )
    return checked_spans(spans, None)


def checked_prompt(prompt_length: int | None) -> int | None:
    if prompt_length is not None and prompt_length < 0:
        raise UsageError(f"prompt_length: expected 0 (none) or more tokens, found {prompt_length}")
    return prompt_length
