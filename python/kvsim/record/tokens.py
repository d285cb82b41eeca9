"""The text of single tokens."""

from typing import Any

SENTENCEPIECE_SPACE = "\u2581"


def token_texts(tokenizer: Any, ids: list[int]) -> list[str]:
    """The text of each token, as it adds to the text before it: a leading space stays.

    A token that is part of a character gives the replacement character.
    """
    known: dict[int, str] = {}
    for token in ids:
        if token not in known:
            known[token] = _text(tokenizer, token)
    return [known[token] for token in ids]


def _text(tokenizer: Any, token: int) -> str:
    piece = tokenizer.convert_ids_to_tokens(token)
    if isinstance(piece, str) and SENTENCEPIECE_SPACE in piece:
        return piece.replace(SENTENCEPIECE_SPACE, " ")  # decoding one token alone would strip it
    text = tokenizer.decode([token], clean_up_tokenization_spaces=False)
    return str(text)
