"""Numbers as a trace has them: of known types, without repeated heads and padding, rotated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..errors import DataError, UsageError
from .sources import Dumped

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

LARGEST_FLOAT16 = 65504.0


def numbers_of(array: Dumped, dtype: str | None) -> np.ndarray:
    """Float16 or float32; bfloat16 becomes float32, exactly, float64 by rounding.

    `dtype`: bfloat16 says what numbers of 16 bits without a type are. Raises DataError.
    """
    kind, read = array.kind, array.read()
    if kind in ("bfloat16", "uint16", "void16"):
        if kind != "bfloat16" and dtype != "bfloat16":
            raise DataError(
                f"{array.place}: found 16 bits without a type ({kind}); if they are bfloat16, say "
                "dtype='bfloat16'"
            )
        bits = np.ascontiguousarray(read).view(np.uint16)
        return (bits.astype(np.uint32) << 16).view(np.float32)
    if kind not in ("float16", "float32", "float64"):
        raise DataError(f"{array.place}: expected numbers with a point, found {kind}")
    wanted = np.float16 if kind == "float16" else np.float32
    with np.errstate(over="ignore"):  # what becomes infinite is refused with its place
        return read.astype(wanted, copy=False)


def repeats_of(key: np.ndarray, value: np.ndarray, largest: int) -> int:
    """How often each head [batch, heads, tokens, dim] stands in a row, bit for bit.

    `largest`: no more than so often, which divides the number of heads.
    """
    for times in range(largest, 1, -1):
        if key.shape[1] % times == 0 and all(_repeats(each, times) for each in (key, value)):
            return times
    return 1


def _repeats(heads: np.ndarray, times: int) -> bool:
    batch, count, *rest = heads.shape
    blocks = heads.reshape(batch, count // times, times, *rest)
    bits = blocks.view(f"u{heads.dtype.itemsize}")
    return all(np.array_equal(bits[:, :, 0], bits[:, :, i]) for i in range(1, times))


def parts_of(mask: np.ndarray | None, batch: int, tokens: int, place: str) -> list[slice]:
    """The tokens of each member of a batch that are no padding. Raises DataError."""
    if mask is None:
        return [slice(0, tokens)] * batch
    if mask.shape != (batch, tokens):
        raise DataError(
            f"{place}: expected a mask of padding [{batch}, {tokens}], found {list(mask.shape)}"
        )
    parts = []
    for member, row in enumerate(mask):
        there = np.flatnonzero(row)
        if not np.isin(row, (0, 1)).all():
            raise DataError(f"{place}: expected 1 for a token and 0 for padding, found others")
        if not len(there) or there[-1] - there[0] + 1 != len(there):
            raise DataError(
                f"{place}: member {member}: expected tokens in one piece with padding before or "
                f"after them, found {len(there)} tokens"
                + (f" between {there[0]} and {there[-1]}" if len(there) else "")
            )
        parts.append(slice(int(there[0]), int(there[-1]) + 1))
    return parts


def require_finite(heads: np.ndarray, place: str) -> None:
    """Raises DataError, which names the first number [heads, tokens, dim] that is not finite."""
    if not np.isfinite(heads).all():
        head, token, dim = np.argwhere(~np.isfinite(heads))[0]
        raise DataError(
            f"{place}: head {head}, token {token}, dimension {dim}: expected a finite number of "
            f"{heads.dtype}, found {heads[head, token, dim]}"
        )


def rope_of(rope: Mapping[str, object]) -> tuple[np.ndarray, str, float]:
    """Angles per position, style and factor of a rotation. Raises UsageError."""
    unknown = set(rope) - {"inv_freq", "style", "attention_factor"}
    if unknown or "inv_freq" not in rope:
        raise UsageError(
            f"rope: expected inv_freq, style and attention_factor, found {', '.join(rope)}"
        )
    angles: ArrayLike = rope["inv_freq"]  # type: ignore[assignment]
    angles = np.asarray(angles, np.float64)
    style, factor = rope.get("style", "half"), float(rope.get("attention_factor", 1.0))  # type: ignore[arg-type]
    if angles.ndim != 1 or not len(angles) or not np.isfinite(angles).all():
        raise UsageError(f"rope: inv_freq: expected finite angles, found {list(angles.shape)}")
    if style not in ("half", "interleaved"):
        raise UsageError(f"rope: style: expected half or interleaved, found {style}")
    return angles, str(style), factor


def rotated(heads: np.ndarray, rope: tuple[np.ndarray, str, float]) -> np.ndarray:
    """Vectors [heads, tokens, dim] turned by their position, as float32."""
    angles, style, factor = rope
    width = 2 * len(angles)
    if width > heads.shape[-1]:
        raise UsageError(f"rope: {len(angles)} angles turn {width} of {heads.shape[-1]} dimensions")
    turn = np.arange(heads.shape[1])[:, None] * angles
    cos, sin = np.cos(turn) * factor, np.sin(turn) * factor
    turned = heads.astype(np.float64)
    half = style == "half"
    one = np.s_[..., : width // 2] if half else np.s_[..., 0:width:2]
    two = np.s_[..., width // 2 : width] if half else np.s_[..., 1:width:2]
    first, second = turned[one].copy(), turned[two].copy()
    turned[one], turned[two] = first * cos - second * sin, second * cos + first * sin
    return turned.astype(np.float32)
