"""Turns texts into tokens and finds where their prompts end."""

from dataclasses import dataclass
from typing import Any

from .errors import RecordError, UsageError
from .texts import Text


@dataclass(frozen=True)
class Encoded:
    ids: list[int]
    prompt_length: int | None  # None: nothing is given as prompt


def encode(tokenizer: Any, text: Text, prompt_length: int | None, most: int | None) -> Encoded:
    """The tokens of a text, after those of its prompt, cut to the first `most`.

    Prompt and text are tokenised apart, so that the prompt has the tokens that it has alone, and
    nothing is put between them. Special tokens stand at the beginning only.

    Raises UsageError if no token would follow the prompt.
    """
    if text.prompt is None:
        ids = list(tokenizer(text.text)["input_ids"])
    else:
        if prompt_length is not None:
            raise UsageError(
                f"--prompt-length: the prompt of {text.source} is given as a text; leave it out"
            )
        begun = _without_end(tokenizer(text.prompt, return_special_tokens_mask=True))
        ids = list(tokenizer(text.text, add_special_tokens=False)["input_ids"])
        if begun and ids:
            prompt_length = len(begun)
            ids = begun + ids
        else:
            ids = []
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
    return Encoded(ids[:most], prompt_length)


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
