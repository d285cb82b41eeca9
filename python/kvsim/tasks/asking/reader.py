"""A model that reads on, and can go back to where it was."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch

from ...closed_loop.evicting_model import EvictingModel
from ...closed_loop.evicting_model.model import Mark
from ...model.cache import cache_argument, returned_cache


@dataclass(frozen=True)
class Bookmark:
    """A place in what was read, with the model's cache of then."""

    mark: Mark
    cache: Any


class Reader:
    """Feeds a batch of members with tokens. All have read as many."""

    def __init__(self, model: torch.nn.Module, evicting: EvictingModel, size: int) -> None:
        self._model, self._evicting, self._size = model, evicting, size
        self._cache: Any = None

    def read(self, ids: torch.Tensor, singly: bool = False) -> torch.Tensor:
        """The logits [batch, new, vocabulary] after ids [new] for all members, or [batch, new].

        `singly`: in a forward pass for each.
        """
        ids = ids.to(self._model.device).long().expand(self._size, -1)
        parts = ids.split(1 if singly else max(1, ids.shape[1]), 1)
        return torch.cat([self._pass(part) for part in parts], 1)

    def mark(self) -> Bookmark:
        """Where the members are now."""
        return Bookmark(self._evicting.mark(), copy.deepcopy(self._cache))

    def go_back(self, to: Bookmark) -> None:
        """All members read on from there, as often as one likes."""
        self._evicting.go_back(to.mark)
        self._cache = copy.deepcopy(to.cache)

    def _pass(self, ids: torch.Tensor) -> torch.Tensor:
        cache = {} if self._cache is None else cache_argument(self._model, self._cache)
        output = self._model(input_ids=ids, use_cache=True, **cache)
        self._cache = returned_cache(output)
        return output.logits
