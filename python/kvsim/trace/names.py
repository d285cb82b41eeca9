"""Texts that a trace can hold: HDF5 ends a string at a zero byte, and strings are UTF-8."""

from __future__ import annotations

NAME_FORM = "a text without a slash, U+0000 and halves of surrogate pairs"


def problem_of(text: str) -> str | None:
    """Why a trace cannot hold a text, for "found ..."; None: it can."""
    if "\0" in text:
        return f"U+0000 as character {text.index(chr(0))} of {text!r}"
    return surrogate_of(text)


def surrogate_of(text: str) -> str | None:
    """The first half of a surrogate pair without the other one, which no tokenizer takes."""
    at = next((i for i, char in enumerate(text) if "\ud800" <= char <= "\udfff"), None)
    return None if at is None else f"half of a surrogate pair, U+{ord(text[at]):X}, at {at}"


def is_name(name: object) -> bool:
    """Whether a sequence can have this name, which is a group of the file."""
    return (
        isinstance(name, str) and name not in ("", ".") and "/" not in name and not problem_of(name)
    )
