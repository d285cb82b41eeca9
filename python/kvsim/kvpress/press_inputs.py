"""What a press of kvpress is given in place of a model: arrays, and stand-ins that know no more."""

from __future__ import annotations

import importlib
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..policy import Rotation
from .kept_rows import ChangedRows, kept_rows
from .refusals import IN_MODEL


class PressFailure(Exception):
    """A press could not score; `is_final` if other sizes would not help."""

    def __init__(self, reason: str, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class AttentionRows:
    """The last `rows` rows of the cached attention; None: all, 0: none."""

    def __init__(self, rows: int | None) -> None:
        self._rows: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=rows)

    def add(self, step) -> None:
        """Remembers the attention of a step."""
        if self._rows.maxlen != 0:
            self._rows.append((step.tokens.copy(), step.attention.copy()))

    def over(self, tokens: np.ndarray) -> np.ndarray | None:
        """[rows, tokens], 0 for tokens that came later; `tokens` ascend. None if there are none."""
        if not self._rows:
            return None
        table = np.zeros((len(self._rows), len(tokens)), np.float32)
        for row, (of, attention) in zip(table, self._rows, strict=True):
            _, here, there = np.intersect1d(tokens, of, assume_unique=True, return_indices=True)
            row[here] = attention[there]
        return table

    def clear(self) -> None:
        """Forgets all rows."""
        self._rows.clear()


def default_rotation(dim: int) -> Rotation:
    """A rotation of `dim` dimensions by halves."""
    return Rotation(tuple(10000.0 ** (-2 * i / dim) for i in range(dim // 2)), False, 1.0)


def put_in_halves(queries, keys, rotation: Rotation) -> tuple[np.ndarray, np.ndarray]:
    """Queries [heads, tokens, dim] rotated back to position 0, and keys [tokens, dim] as recorded.

    The dimensions of both are in the order of transformers: pairs i and i + dim / 2. Those that are
    not rotated come in pairs after those that are.
    """
    dim, pairs = keys.shape[1], len(rotation.inverse_frequency)
    first = np.arange(0, 2 * pairs, 2) if rotation.interleaved else np.arange(pairs)
    second = first + (1 if rotation.interleaved else pairs)
    rest = np.arange(2 * pairs, dim)
    half = len(rest) // 2
    order = np.concatenate([first, rest[:half], second, rest[half:]])
    queries, keys = queries[..., order], keys[:, order]
    return _rotated_back(queries, rotation), keys


def _rotated_back(vectors, rotation: Rotation) -> np.ndarray:
    """[..., tokens, dim], in the order of transformers, as they were before rotation."""
    cosine, sine = _cosine_and_sine(rotation, np.arange(vectors.shape[-2]), vectors.shape[-1])
    length = cosine**2 + sine**2  # the square of the attention factor
    a, b = np.split(vectors.astype(np.float64), 2, axis=-1)
    back = np.concatenate([a * cosine + b * sine, b * cosine - a * sine], axis=-1)
    return (back / np.tile(length, 2)).astype(np.float32)


def _cosine_and_sine(rotation: Rotation, positions, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """[positions, dim / 2] each, times the attention factor where dimensions are rotated."""
    frequency, factor = np.zeros(dim // 2), np.ones(dim // 2)
    pairs = len(rotation.inverse_frequency)
    frequency[:pairs], factor[:pairs] = rotation.inverse_frequency, rotation.attention_factor
    angle = np.multiply.outer(np.asarray(positions, np.float64), frequency)
    return factor * np.cos(angle), factor * np.sin(angle)


class _Hidden:
    """Hidden states of which nothing is known but their number and what they project to.

    `queries` are [heads, tokens, dim] and `keys` [1, tokens, dim], before rotation, or both None.
    """

    device = "cpu"

    def __init__(self, queries, keys, tokens: int, used: set[str]) -> None:
        self._queries, self._keys, self._tokens, self._used = queries, keys, tokens, used

    @property
    def shape(self) -> tuple[int, int, int]:
        width = 1 if self._queries is None else self._queries.shape[0] * self._queries.shape[2]
        return 1, self._tokens, width

    def size(self, axis: int | None = None):
        return self.shape if axis is None else self.shape[axis]

    def __getitem__(self, index):
        batch, tokens = index[:2] if isinstance(index, tuple) else (index, slice(None))
        if batch not in (slice(None), Ellipsis) or not isinstance(tokens, slice):
            raise TypeError("it reads single hidden states")
        return self._of(tokens, len(range(*tokens.indices(self._tokens))))

    # BlockPress takes those of some tokens, one KV head at a time: here there is one.
    def view(self, batch, tokens, heads, _):
        if (batch, tokens, heads) != (1, self._tokens, 1):
            raise TypeError("it reads single hidden states")
        return self

    def transpose(self, *_):
        return self

    reshape = transpose

    def gather(self, _, index):
        tokens = index[0, 0, :, 0]
        return self._of(tokens, len(tokens))

    def _of(self, tokens, count: int) -> _Hidden:
        if self._queries is None:
            return _Hidden(None, None, count, self._used)
        return _Hidden(self._queries[:, tokens], self._keys[:, tokens], count, self._used)

    def queries(self):
        """[1, tokens, heads * dim]."""
        return self._projected(self._queries)

    def keys(self):
        """[1, tokens, dim]."""
        return self._projected(self._keys)

    def _projected(self, vectors):
        self._used.add("queries")
        if vectors is None:
            raise PressFailure("it asks for queries, which it did not with its first settings")
        return vectors.permute(1, 0, 2).reshape(1, self._tokens, -1)


class _Module:
    """An attention layer that has a head dimension, a rotation and projections."""

    def __init__(self, heads: int, dim: int, rotation: Rotation | None) -> None:
        self.head_dim = dim
        self.config = SimpleNamespace(
            num_attention_heads=heads, num_key_value_heads=1, head_dim=dim
        )
        self.rotary_emb = _Rotary(rotation, dim)
        self.missing: list[str] = []

    @staticmethod
    def q_proj(hidden: _Hidden):
        return hidden.queries()

    @staticmethod
    def k_proj(hidden: _Hidden):
        return hidden.keys()

    def __getattr__(self, name: str):
        if not name.startswith("__"):
            self.missing.append(name)
        raise AttributeError(name)


class _Rotary:
    def __init__(self, rotation: Rotation | None, dim: int) -> None:
        self._rotation, self._dim = rotation, dim

    def __call__(self, _, position_ids):
        import torch

        both = _cosine_and_sine(self._rotation, position_ids[0].cpu().numpy(), self._dim)
        return tuple(torch.tensor(np.tile(each, 2)[None], dtype=torch.float32) for each in both)


class _Arguments(dict):
    """What a layer is called with: the rotation of the text's positions, and nothing else."""

    def __init__(self, module: _Module, tokens: int) -> None:
        super().__init__()
        self._module, self._tokens = module, tokens

    def __missing__(self, name: str):
        if name == "position_embeddings":
            import torch

            return self._module.rotary_emb(None, torch.arange(self._tokens)[None])
        self._module.missing.append(f"kwargs[{name!r}]")
        raise KeyError(name)


def call_press(
    press: Any,
    keys: np.ndarray,
    values: np.ndarray,
    attention: np.ndarray | None = None,
    queries: np.ndarray | None = None,
    rotation: Rotation | None = None,
    used: set[str] | None = None,
    seed: int = 0,
) -> np.ndarray:
    """The press's scores of tokens; of one that drops otherwise than by scores, 0 for what it keeps
    and minus infinity.

    `keys` are [tokens, dim], `values` [tokens, value_dim], `attention` [rows, tokens], the mean
    over the query heads, `queries` [heads, tokens, dim], before rotation, all float32. `used` gets
    "queries" if the press asks for them, or for keys before rotation. What it draws comes from
    `seed`. Raises PressFailure with the reason.
    """
    import torch

    tokens, dim = keys.shape
    heads = 1 if queries is None else len(queries)
    module = _Module(heads, dim, rotation)
    projected = None, None
    if queries is not None:
        projected = torch.tensor(queries), torch.tensor(_rotated_back(keys[None], rotation))
    hidden = _Hidden(*projected, tokens, set() if used is None else used)
    rows = None
    if attention is not None:
        rows = torch.tensor(attention)[None, None].expand(1, heads, -1, -1)
    vectors = torch.tensor(keys)[None, None], torch.tensor(values)[None, None]
    given = module, hidden, *vectors, rows, _Arguments(module, tokens)
    try:
        with torch.no_grad(), drawing_from(seed):
            if drops_lowest(press):
                found = press.score(*given)
            else:
                (kept,) = kept_rows(*vectors, *press.compress(*given))
                found = torch.full((1, 1, tokens), -torch.inf)
                found[..., kept] = 0
    except PressFailure:
        raise
    except ChangedRows as error:
        raise PressFailure(str(error), is_final=True) from error
    except Exception as error:  # whatever a press raises that does not find what it reads
        if module.missing:
            raise PressFailure(_lacking(module.missing[-1]), is_final=True) from error
        reason = " ".join(str(error).split()) or type(error).__name__
        raise PressFailure(
            f"it cannot score queries, keys, values and attention: {reason}"
        ) from error
    if tuple(found.shape) != (1, 1, tokens):
        raise PressFailure(
            f"expected scores of shape (1, 1, {tokens}), found {tuple(found.shape)}", is_final=True
        )
    return found[0, 0].double().numpy()


_drawing = threading.RLock()


@contextmanager
def drawing_from(seed: int, device: Any = None) -> Iterator[None]:
    """Lets torch draw from a seed, in one thread at a time, and then go on as before; on a `device`
    (of torch), too."""
    import torch

    on_gpu = device is not None and device.type == "cuda"
    with _drawing, torch.random.fork_rng(devices=[device] if on_gpu else []):
        torch.default_generator.manual_seed(seed)
        if on_gpu:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def drops_lowest(press: Any) -> bool:
    """Whether it drops the tokens with the lowest scores, and so keeps any number of them."""
    scorer = importlib.import_module("kvpress").ScorerPress
    return isinstance(press, scorer) and type(press).compress is scorer.compress


def _lacking(name: str) -> str:
    if name == "layer_idx":
        return f"it needs the number of the layer, which a policy does not know; {IN_MODEL}"
    return f"it needs {name} of the model; {IN_MODEL}"
