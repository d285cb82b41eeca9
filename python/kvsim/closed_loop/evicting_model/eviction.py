"""What the caches of an evicting model hold, for the block that runs it."""

from __future__ import annotations

import numpy as np

from ...errors import UsageError
from .engine_calls import Sequence, held_of
from .model import EvictingModel


class Eviction:
    """The last sequences of a model that evicts. `kvsim.evicting` makes it.

    Of an estimator, which holds no set of tokens, the tokens are those of which it holds the value.
    """

    def __init__(self, model: EvictingModel, takes_single_steps: bool) -> None:
        self._model = model
        self._takes_single_steps = takes_single_steps

    @property
    def takes_single_steps(self) -> bool:
        """Whether the policy takes one token per forward pass: all tokens in stream mode, those
        after the prompt in prefill mode."""
        return self._takes_single_steps

    @property
    def num_begun(self) -> int:
        """How many sequences have begun; those of the last batch are asked about."""
        return self._model.num_begun

    def kept(self, layer: int, kv_head: int) -> list[np.ndarray]:
        """What a KV head holds after the last step: text positions, int32, of each sequence of
        the batch."""
        return [held_of(left) for left in self.evicted_after(layer, kv_head)]

    def evicted_after(self, layer: int, kv_head: int) -> list[np.ndarray]:
        """The step after which each of the n tokens so far left, int32 [n], n for those that are
        held, of each sequence of the batch."""
        self._require(layer, kv_head)
        cache = self._model.geometry.caches.cache_of(layer)
        return [sequence.caches.evicted_after(cache)[kv_head] for sequence in self._sequences()]

    @property
    def peak_tokens(self) -> int:
        """The most tokens that a KV head held after any step, over all sequences of the batch."""
        return max(sequence.caches.peak_tokens for sequence in self._sequences())

    @property
    def cache_bytes(self) -> int:
        """The bytes of keys and values that the policy's caches took at most, summed over layers,
        heads and the sequences of the batch, in numbers of the model's own cache."""
        return sum(sequence.caches.cache_bytes for sequence in self._sequences())

    @property
    def storage(self) -> dict[int, str]:
        """Of each layer how evicted tokens are kept from its heads.

        "dropped": their rows have left the model's cache; "masked": they are there and hidden;
        "engine": the engine's caches compute the output, and those of the model are not used.
        """
        plain = all(sequence.caches.is_plain for sequence in self._sequences())
        dropped = self._model.dropped_layers
        return {
            layer: "engine" if not plain else "dropped" if layer in dropped else "masked"
            for layer in self._model.geometry.layers
        }

    def _sequences(self) -> list[Sequence]:
        if not self._model.batch:
            raise UsageError("no text was read yet; run the model inside the block first")
        return self._model.batch

    def _require(self, layer: int, kv_head: int) -> None:
        geometry = self._model.geometry
        if layer not in geometry.shapes:
            raise UsageError(f"layer: expected one of {list(geometry.shapes)}, found {layer!r}")
        heads = geometry.shapes[layer].num_kv_heads
        if not 0 <= kv_head < heads:
            raise UsageError(f"kv_head: expected 0..{heads - 1}, found {kv_head!r}")
