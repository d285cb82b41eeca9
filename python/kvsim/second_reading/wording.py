"""What a model is asked before it reads a part of its text again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError

INSTRUCTIONS = (
    "\n\nRepeat the previous context exactly.",
    "\n\nRepeat the part of the previous context exactly, starting with",
)
"""Of the first chunk and of later ones, as in KVzipPress of kvpress 0.5.5. The authors' program,
snu-mllab/KVzip, ends the second one with a space."""

LAST_OF_PREVIOUS = 8  # tokens of the chunk before, after the instruction of a later chunk
_MESSAGE = "dummy context"
_SEPARATOR = "\n" + "#" * len(_MESSAGE)


@dataclass(frozen=True)
class Wording:
    """Token ids of the instructions and of what stands between them and the text."""

    first: list[int]
    later: list[int]
    suffix: list[int]

    @staticmethod
    def of(tokenizer: Any, instruction: str | Sequence[str], suffix: str | None) -> Wording:
        """`instruction`: a text for all chunks, or one for the first and one for later chunks.

        `suffix` None: what the tokenizer's chat template puts after the user's message, a line feed
        without a template. Raises UsageError.
        """
        texts = [instruction] * 2 if isinstance(instruction, str) else list(instruction)
        if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
            raise UsageError(
                "instruction: expected a text, or one for the first chunk and one for later ones, "
                f"found {instruction!r}"
            )
        after = _suffix_of(tokenizer) if suffix is None else suffix
        first, later, last = (
            list(tokenizer.encode(text, add_special_tokens=False)) for text in (*texts, after)
        )
        return Wording(first, later, last)

    def repeated(self, ids: list[int], start: int, end: int, chunk: int) -> list[int]:
        """What the model reads after its text `ids` to repeat the chunk [start, end) of it."""
        asked = self.first
        if start > 0:
            asked = self.later + ids[start - min(LAST_OF_PREVIOUS, chunk) : start]
        return [*asked, *self.suffix, *ids[start:end]]


def _suffix_of(tokenizer: Any) -> str:
    if getattr(tokenizer, "chat_template", None) is None:
        return "\n"
    message = {"role": "user", "content": _MESSAGE + _SEPARATOR}
    try:
        text = tokenizer.apply_chat_template(
            [message], add_generation_prompt=True, tokenize=False, enable_thinking=False
        )
    except Exception as error:  # a template is a program, and may refuse a message
        raise UsageError(
            f"suffix: the chat template fails ({error}); give the suffix as a text"
        ) from error
    parts = text.split(_SEPARATOR)
    if len(parts) != 2:
        raise UsageError(
            "suffix: expected a chat template that repeats the user's message as it is, once, "
            f"found it {len(parts) - 1} times; give the suffix as a text"
        )
    return parts[1]
