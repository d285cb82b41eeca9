"""Finds layers that attend with the keys and values of another layer (Gemma 3n and 4)."""

import weakref

import torch

from ..errors import RecordError
from .attention import Call


class SharedCaches:
    """Compares the keys of each attention call with those of the layers before it.

    They are the same if they are the same memory, as long as it is in use.
    """

    def __init__(self) -> None:
        self.owners: dict[int, int] = {}  # of the layers that read the cache of another one
        self._own: set[int] = set()  # layers with keys of their own
        self._keys: dict[int, weakref.ref[torch.Tensor]] = {}  # of this forward pass

    def begin_step(self) -> None:
        """A forward pass begins."""
        self._keys.clear()

    def look(self, layer: int, call: Call) -> None:
        """Sees one call. Raises RecordError for a layer that reads now these keys, now others."""
        owner = next((at for at, key in self._keys.items() if _is_same(key(), call.key)), None)
        known = self.owners.get(layer)
        if owner != known and (known is not None or layer in self._own):
            raise RecordError(
                f"layer {layer} attends with keys of layer {layer if owner is None else owner}, "
                f"before it did with those of layer {layer if known is None else known}"
            )
        if owner is None:
            self._own.add(layer)
            self._keys[layer] = weakref.ref(call.key)
        else:
            self.owners[layer] = owner

    def cache_of(self, layer: int) -> int:
        """The layer whose keys and values a layer attends with."""
        return self.owners.get(layer, layer)

    def readers_of(self, layer: int) -> list[int]:
        """The other layers that attend with a layer's keys and values."""
        return sorted(reader for reader, owner in self.owners.items() if owner == layer)


def _is_same(one: torch.Tensor | None, other: torch.Tensor) -> bool:
    if one is None or one.shape != other.shape or one.stride() != other.stride():
        return False
    return one is other or one.data_ptr() == other.data_ptr()
