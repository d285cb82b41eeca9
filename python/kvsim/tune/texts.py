"""Which texts a search sees, and which it is measured on: never the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UsageError


@dataclass(frozen=True)
class Text:
    """A text by its name, and what its tokens are known by."""

    name: str
    text_id: str


HeldOut = str | float | Sequence[str] | None


def split_texts(texts: Sequence[Text], held_out: HeldOut) -> tuple[list[Text], list[Text]]:
    """The texts to search on and those held out, which `held_out` names, or a share of.

    A share are the last ones, at least one; None: a third. Raises UsageError where one side is
    empty, a name is unknown, or a text stands on both sides.
    """
    names = [text.name for text in texts]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"texts: two are named {twice}; give each its own name")
    share = _share(held_out)
    if share is not None:
        if len(texts) < 2:
            raise UsageError(
                "texts: expected at least two, one to search on and one held out, found "
                f"{len(texts)}"
            )
        count = min(max(1, int(len(texts) * share)), len(texts) - 1)
        searched, held = list(texts[:-count]), list(texts[-count:])
    else:
        wanted = [held_out] if isinstance(held_out, str) else list(held_out)
        if unknown := [name for name in wanted if name not in names]:
            raise UsageError(
                f"held_out: there is no text {unknown[0]}; there are {', '.join(names)}"
            )
        searched = [text for text in texts if text.name not in wanted]
        held = [text for text in texts if text.name in wanted]
        if not searched or not held:
            side = "search on" if held else "hold out"
            raise UsageError(f"held_out: no text is left to {side}; name some, but not all")
    _refuse_overlap(searched, held)
    return searched, held


def _share(held_out: HeldOut) -> float | None:
    """None: they are named."""
    if held_out is None:
        return 1 / 3
    if isinstance(held_out, str):
        if not held_out.endswith("%"):
            return None
        try:
            share = float(held_out[:-1]) / 100
        except ValueError:
            share = -1.0
    elif isinstance(held_out, (int, float)):
        share = float(held_out)
    else:
        return None
    if not 0 < share < 1:
        raise UsageError(f"held_out: expected a share above 0% and below 100%, found {held_out}")
    return share


def _refuse_overlap(searched: Sequence[Text], held: Sequence[Text]) -> None:
    by_id = {text.text_id: text.name for text in searched}
    for text in held:
        if text.text_id in by_id:
            raise UsageError(
                f"held_out: {text.name} has the tokens of {by_id[text.text_id]}, which is searched "
                "on; leave one of them out"
            )
