"""Turns texts into tokens and finds where their prompts end and what their spans hold."""

import warnings
from dataclasses import dataclass
from typing import Any

from ..errors import RecordError, RecordWarning, UsageError
from ..trace.spans import Span
from .spans import prompt_tokens, token_spans, with_offsets
from .texts import Text


@dataclass(frozen=True)
class Encoded:
    ids: list[int]
    prompt_length: int | None  # None: nothing is given as prompt
    spans: tuple[Span, ...] = ()  # of tokens


def encode(tokenizer: Any, text: Text, prompt_length: int | None, most: int | None) -> Encoded:
    """The tokens of a text, after those of its prompt, cut to the first `most`.

    Prompt and text are tokenised apart, so that the prompt has the tokens that it has alone, and
    nothing is put between them. Special tokens stand at the beginning only.

    A span holds every token that holds one of its characters, and so does a prompt that is given
    in characters: a token across its end belongs to it. Spans that reach beyond the cut are left
    out, with a RecordWarning.

    Raises UsageError if no token would follow the prompt, RecordError if that is what the text
    itself says, and for a span without a token.
    """
    spans: list[Span] = []
    if text.prompt is not None:
        if prompt_length is not None:
            raise UsageError(
                f"--prompt-length: the prompt of {text.source} is given as a text; leave it out"
            )
        ids, prompt_length = _joined(tokenizer, text.prompt, text.text)
    elif text.spans or text.prompt_length is not None:
        if text.prompt_length is not None and prompt_length is not None:
            raise UsageError(f"--prompt-length: {text.source} gives its own; leave one of them out")
        ids, characters = with_offsets(tokenizer, text.text)
        spans = token_spans(characters, text.spans, text.source)
        if text.prompt_length is not None:
            prompt_length = _prompt_of(text, characters)
    else:
        ids = list(tokenizer(text.text)["input_ids"])
    if not ids:
        raise RecordError(f"{text.source}: the tokenizer finds no token")
    if prompt_length is not None:
        if prompt_length >= len(ids):
            raise UsageError(
                f"--prompt-length {prompt_length}: {text.source} has {len(ids)} tokens, and one "
                f"must follow the prompt; give less than {len(ids)}"
            )
        if most is not None and most <= prompt_length:
            raise UsageError(
                f"--max-prompt-tokens {most}: the prompt of {text.source} has {prompt_length} "
                f"tokens, and one must follow it; give more than {prompt_length}"
            )
    return Encoded(ids[:most], prompt_length, _within(spans, most, text.source))


def _joined(tokenizer: Any, prompt: str, text: str) -> tuple[list[int], int]:
    """The tokens of a prompt and a text, none if one of them has none, and those of the prompt."""
    begun = _without_end(tokenizer(prompt, return_special_tokens_mask=True))
    ids = list(tokenizer(text, add_special_tokens=False)["input_ids"])
    return (begun + ids if begun and ids else []), len(begun)


def _prompt_of(text: Text, characters: list[tuple[int, int]]) -> int:
    """The tokens of a prompt that is given in characters."""
    length = prompt_tokens(characters, text.prompt_length)
    if characters and length >= len(characters):
        raise RecordError(
            f"{text.source}: the prompt of {text.prompt_length} characters holds all "
            f"{len(characters)} tokens, and one must follow; give a smaller prompt_length"
        )
    return length


def _within(spans: list[Span], most: int | None, source: str) -> tuple[Span, ...]:
    kept = tuple(span for span in spans if most is None or span.end <= most)
    if len(kept) < len(spans):
        warnings.warn(
            f"{source}: {len(spans) - len(kept)} of {len(spans)} spans end after its first {most} "
            "tokens and are left out",
            RecordWarning,
        )
    return kept


def _without_end(encoded: Any) -> list[int]:
    """The tokens without the special ones that the tokenizer adds after a text."""
    ids, added = list(encoded["input_ids"]), list(encoded["special_tokens_mask"])
    while added and added[-1]:
        ids.pop()
        added.pop()
    return ids


def require_room(config: Any, texts: list[Text], encoded: list[Encoded], new: int) -> None:
    """Raises UsageError if a text and its `new` tokens are longer than the model's positions."""
    room = getattr(config.get_text_config(), "max_position_embeddings", None)
    if not room:
        return
    left = room - max(0, new - 1)  # the model does not read the last new token
    if left < 1:
        raise UsageError(f"--max-new-tokens: the model has {room} positions, found {new}")
    for text, one in zip(texts, encoded, strict=True):
        if len(one.ids) > left:
            cure = f"--max-prompt-tokens {left}"
            if one.prompt_length is not None and one.prompt_length >= left:
                cure = "a shorter prompt"
            raise UsageError(
                f"{text.source}: {len(one.ids)} tokens and {new} new ones are more than the "
                f"model's {room} positions; use {cure}"
            )
