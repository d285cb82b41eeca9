"""The text of single tokens, and what all tokens of a text are known by."""

import hashlib
from typing import Any

import numpy as np

SENTENCEPIECE_SPACE = "\u2581"


def text_id(ids: np.ndarray) -> str:
    """The SHA-256 of the ids as little-endian int32."""
    return hashlib.sha256(ids.astype("<i4").tobytes()).hexdigest()


def token_texts(tokenizer: Any, ids: list[int]) -> list[str]:
    """The text that each token adds to the text before it, its leading space included.

    A token that is only a part of a character becomes the replacement character.
    """
    known: dict[int, str] = {}
    for token in ids:
        if token not in known:
            known[token] = _text(tokenizer, token)
    return [known[token] for token in ids]


def _text(tokenizer: Any, token: int) -> str:
    piece = tokenizer.convert_ids_to_tokens(token)
    if isinstance(piece, str) and SENTENCEPIECE_SPACE in piece:
        return piece.replace(SENTENCEPIECE_SPACE, " ")  # decoding a single token would strip it
    text = tokenizer.decode([token], clean_up_tokenization_spaces=False)
    return str(text)
