"""The features of tokens in a cache, as policies/learned/README.md defines them for the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UsageError
from ..policy import TokenKind

if TYPE_CHECKING:
    from ..policy import Rotation

BLOCKS = {"key": "head_dim", "value": "value_dim"}
FIXED = (*BLOCKS, "key_norm", "value_norm", "key_like_mean", "first", "position")
FIXED += ("punctuation", "special")
CHANGING = ("now", "mean", "largest", "age")
RATED = ("decayed", "neighbours")


def check_names(names: list[str]) -> None:
    """Raises UsageError for a list that no file of scorers can have."""
    if not names:
        raise UsageError("features: expected at least one, found none")
    for name in names:
        kind, _, rate = name.partition(":")
        if name in FIXED + CHANGING or (kind in RATED and _is_share(rate)):
            continue
        raise UsageError(
            f"features: expected {', '.join(FIXED + CHANGING)}, decayed:R or neighbours:R with R "
            f"between 0 and 1, found {name}"
        )
    if len(set(names)) < len(names):
        raise UsageError(f"features: expected each once, found {', '.join(names)}")


def reads_keys(names: list[str]) -> bool:
    """Whether a feature depends on how keys are rotated."""
    return "key" in names or "key_like_mean" in names


def width_of(names: list[str], shape: dict[str, Any]) -> int:
    """The number of columns, in a model with these head_dim and value_dim."""
    return sum(shape[BLOCKS[name]] if name in BLOCKS else 1 for name in names)


def _is_share(text: str) -> bool:
    try:
        return 0 < float(text) < 1
    except ValueError:
        return False


class Features:
    """The features of one cache, step by step.

    Arguments:
      names: of the features; they say what the columns are.
      tokens: at most so many in the text.
      rotation: how keys were rotated, to rotate them back to position 0; None: as recorded.
    """

    def __init__(self, names: list[str], tokens: int, rotation: Rotation | None) -> None:
        self._names = names
        self._rotation = rotation
        self._fixed: np.ndarray | None = None
        self._key_sum: np.ndarray | float = 0.0
        self._sum, self._largest = np.zeros((2, tokens))
        rates = {float(name.partition(":")[2]) for name in names if ":" in name}
        self._decayed = {rate: np.zeros(tokens) for rate in sorted(rates)}

    def add(self, step: Any) -> None:
        """Takes in one step of the cache (kvsim.Policy.update). Call it at every step."""
        held, p = step.tokens, step.attention
        self._add_fixed(step)
        self._sum[held] += p
        self._largest[held] = np.maximum(self._largest[held], p)
        for rate, sums in self._decayed.items():
            sums[held] = rate * sums[held] + (1 - rate) * p

    def columns(self, step: Any) -> np.ndarray:
        """After add(): float64 [tokens in the cache, columns]."""
        assert self._fixed is not None
        held, age = step.tokens, step.index - step.tokens
        parts, first = [], 0
        for name in self._names:
            if name in FIXED:
                width = {"key": step.keys.shape[1], "value": step.values.shape[1]}.get(name, 1)
                parts.append(self._fixed[held, first : first + width])
                first += width
            else:
                parts.append(self._changing(name, step, held, age)[:, None])
        return np.hstack(parts)

    def _add_fixed(self, step: Any) -> None:
        t = step.index
        key = step.keys[-1].astype(np.float64)
        if self._rotation is not None:
            key = rotated_back(key, t, self._rotation)
        value = step.values[-1].astype(np.float64)
        self._key_sum = self._key_sum + key
        of = {
            "key": key,
            "value": value,
            "key_norm": [np.sqrt(key @ key)],
            "value_norm": [np.sqrt(value @ value)],
            "key_like_mean": [1.0 if t == 0 else _cosine(key, np.asarray(self._key_sum))],
            "first": [float(t < 4)],
            "position": [np.log1p(t)],
            "punctuation": [float(step.kinds[-1] == TokenKind.PUNCTUATION)],
            "special": [float(step.kinds[-1] == TokenKind.SPECIAL)],
        }
        row = np.concatenate([of[name] for name in self._names if name in FIXED] or [[]])
        if self._fixed is None:
            self._fixed = np.zeros((len(self._sum), len(row)))
        self._fixed[t] = row

    def _changing(self, name: str, step: Any, held: np.ndarray, age: np.ndarray) -> np.ndarray:
        if name == "age":
            return np.log1p(age)
        kind, _, rate = name.partition(":")
        if kind in RATED:
            mean = self._decayed[float(rate)][held] / (1 - float(rate) ** (age + 1))
            x = mean if kind == "decayed" else _mean_of_neighbours(mean, held)
        else:
            of = {"now": step.attention, "largest": self._largest[held]}
            x = of[name] if name in of else self._sum[held] / (age + 1)
        return np.sqrt(np.sqrt(np.sqrt(x.astype(np.float64))))


def _mean_of_neighbours(mean: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Over the tokens before and after in the text that are held; 0 if neither is."""
    adjacent = np.diff(held) == 1
    total, count = np.zeros((2, len(held)))
    total[1:] += np.where(adjacent, mean[:-1], 0)
    total[:-1] += np.where(adjacent, mean[1:], 0)
    count[1:] += adjacent
    count[:-1] += adjacent
    return total / np.maximum(count, 1)


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    norms = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / norms if norms > 0 else 0.0


def rotated_back(vector: np.ndarray, position: int, rotation: Rotation) -> np.ndarray:
    """The vector rotated from its position back to 0."""
    pairs = len(rotation.inverse_frequency)
    angle = -position * np.array(rotation.inverse_frequency)
    first, second = slice(0, pairs), slice(pairs, 2 * pairs)
    if rotation.interleaved:
        first, second = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    back, a, b = vector.copy(), vector[first], vector[second]
    back[first] = a * np.cos(angle) - b * np.sin(angle)
    back[second] = b * np.cos(angle) + a * np.sin(angle)
    return back
