"""Drops the rows of evicted tokens from a model's own cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers.cache_utils import DynamicLayer

from ...errors import RecordError


class DroppingLayer(DynamicLayer):
    """A layer of a DynamicCache that has fewer rows than the text has columns.

    Its length, which masks and positions follow from, stays that of the text. Takes over the rows
    of `layer`.
    """

    def __init__(self, layer: DynamicLayer) -> None:
        super().__init__()
        self.dtype, self.device = layer.keys.dtype, layer.keys.device
        self.keys, self.values = layer.keys, layer.values
        self.is_initialized = True
        self.columns = layer.get_seq_length()  # of the text, padding included

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.columns += key_states.shape[-2]
        return super().update(key_states, value_states, *args, **kwargs)

    def keep(self, rows: torch.Tensor) -> None:
        """Keeps these rows, [batch, KV heads or 1, rows]."""
        at = rows.to(self.keys.device)[..., None]
        self.keys = self.keys.take_along_dim(at, dim=2)
        self.values = self.values.take_along_dim(at, dim=2)

    def get_seq_length(self) -> int:
        return self.columns

    def reset(self) -> None:
        super().reset()
        self.columns = 0

    def crop(self, tokens_to_remove: int) -> None:
        if tokens_to_remove:
            self._refuse()

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        self._refuse()

    def batch_repeat_interleave(self, repeats: int) -> None:
        self._refuse()

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        self._refuse()

    def _refuse(self) -> None:
        raise RecordError(
            "a cache whose rows are dropped cannot be changed; generate without beams and "
            "candidates, or evict without drop=True"
        )


class Dropper:
    """The layers of one cache whose rows are dropped, and the tokens of their rows."""

    def __init__(self) -> None:
        self._layers: dict[int, DroppingLayer] = {}
        self._positions: dict[int, np.ndarray] = {}
        self.exact: set[int] = set()  # the layers that hold no row but those of kept tokens

    def begin(self) -> None:
        """New sequences begin: the model keeps all rows again."""
        self._layers, self._positions, self.exact = {}, {}, set()

    def has_dropped(self, layer: int) -> bool:
        return layer in self._layers

    def positions(self, layer: int, new: np.ndarray) -> np.ndarray:
        """The tokens of the rows of a layer, [batch, KV heads, rows], of which `new` [batch, new]
        are added."""
        old = self._positions[layer]
        added = np.broadcast_to(new[:, None], (*old.shape[:2], new.shape[1]))
        return np.concatenate([old, added], axis=2)

    def require(self, cache: Any) -> None:
        """Raises RecordError unless this is the cache whose rows were dropped."""
        for index, layer in self._layers.items():
            if getattr(cache, "layers", {})[index] is not layer:
                raise RecordError("the cache is another one than at the step before")

    def drop(self, cache: Any, layer: int, positions: np.ndarray, held: list) -> None:
        """Drops the rows of all tokens but those held, where all heads hold equally many.

        `positions` are the tokens of the present rows, [batch, KV heads or 1, rows]; `held` are
        those of each member of the batch and KV head. A layer of another kind than DynamicLayer,
        such as one with a sliding window, keeps its rows. One with a row for all heads, as of
        latent vectors, keeps them unless the heads hold the same tokens.
        """
        layers = getattr(cache, "layers", ())  # some models have a cache of another form
        own = layers[layer] if layer < len(layers) else None
        counts = {len(tokens) for member in held for tokens in member}
        shape = (len(held), len(held[0]), positions.shape[2])
        positions = np.broadcast_to(positions, shape)
        if layer in self._layers:
            self._positions[layer] = positions
        self.exact.discard(layer)
        if len(counts) != 1 or not _has_row_of_each(own, shape, held):
            return
        if layer not in self._layers:
            if counts == {shape[2]}:
                return
            own = cache.layers[layer] = self._layers[layer] = DroppingLayer(own)
        rows = [
            [np.isin(row, tokens).nonzero()[0] for row, tokens in zip(of_heads, member)]
            for of_heads, member in zip(positions, held)
        ]
        kept = np.array(rows)
        own.keep(torch.from_numpy(kept[:, : own.keys.shape[1]]))
        self._positions[layer] = np.take_along_axis(positions, kept, axis=2)
        self.exact.add(layer)


def _has_row_of_each(layer: Any, shape: tuple[int, int, int], held: list) -> bool:
    """Whether a row belongs to one token of one head, or to that of heads which hold the same."""
    if type(layer) not in (DynamicLayer, DroppingLayer):
        return False
    if tuple(layer.keys.shape[:3]) == shape:
        return True
    is_same = all(np.array_equal(tokens, member[0]) for member in held for tokens in member)
    return is_same and tuple(layer.keys.shape[:3]) == (shape[0], 1, shape[2])
