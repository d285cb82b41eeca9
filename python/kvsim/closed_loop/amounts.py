"""Budgets as they are written, in tokens."""

from __future__ import annotations

import math

from ..errors import UsageError


def tokens_of(written: str, whole: int | None) -> int:
    """A number of tokens ("256") or a share of `whole` ("20%", "0.2"), in tokens.

    A share f is max(1, floor(f * whole + 0.5)), as for kvsim.sweep. Raises UsageError for what is
    neither, and for a share where the whole is not known (None).
    """
    text = written.strip()
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise UsageError(
            f"budget: expected a number of tokens (256), a fraction in (0, 1] written with a point "
            f"(0.2) or a percentage (20%), found {written!r}"
        )
    if whole is None:
        raise UsageError(
            f"budget {written}: while a model runs, the length of its text is not known; give "
            'tokens, or mode="prefill", where a share is of the prompt'
        )
    return max(1, math.floor(share * whole + 0.5))
