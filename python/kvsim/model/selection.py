"""The tokens that a model itself selects at each step, as DeepSeek-V3.2 and its kind do."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..errors import RecordError
from .masks import booleans_of

TOKENS, BLOCKS = "indices", "block_indices"  # options of attention that hold a selection


def take_selection(
    module: torch.nn.Module, options: dict[str, Any], num_keys: int
) -> torch.Tensor | None:
    """Takes the selection out of the options of an attention call.

    Boolean [batch, queries, keys], true for what is selected, which may be in the future; None:
    the options hold none. Raises RecordError if KV heads select differently.
    """
    tokens, blocks = options.pop(TOKENS, None), options.pop(BLOCKS, None)
    if tokens is not None:
        return _marked(module, tokens, num_keys)
    if blocks is None:
        return None
    if not bool((blocks.sort(-1).values == blocks[:, :1].sort(-1).values).all()):
        raise RecordError(
            f"layer {module.layer_idx} selects other tokens for each KV head; a trace holds one "
            "selection per layer"
        )
    size = module.indexer.block_size
    marked = _marked(module, blocks[:, 0], -(-num_keys // size))
    return marked.repeat_interleave(size, dim=-1)[..., :num_keys]


def selection_of_mask(
    module: torch.nn.Module, mask: torch.Tensor | None, num_keys: int
) -> torch.Tensor | None:
    """What a module that has an indexer sees by a mask, which may be what it selects.

    Boolean [batch or 1, queries, keys]; None: it has no indexer, or the mask is none of booleans
    that is the same for all heads.
    """
    if getattr(module, "indexer", None) is None or mask is None or mask.dim() != 4:
        return None
    if mask.shape[1] > 1 and not bool((mask == mask[:, :1]).all()):
        return None
    return booleans_of(mask[:, 0, :, :num_keys])


def _marked(module: torch.nn.Module, places: torch.Tensor, count: int) -> torch.Tensor:
    """Boolean [.., count], true at these places [.., K]; -1 is none."""
    if bool((places >= count).any()):
        raise RecordError(
            f"layer {module.layer_idx} selects number {int(places.max())} of {count}; does its "
            "cache hold other tokens than it selects from?"
        )
    marked = torch.zeros(*places.shape[:-1], count + 1, dtype=torch.bool, device=places.device)
    marked.scatter_(-1, places.long().masked_fill(places < 0, count), True)
    return marked[..., :count]


def selected_tokens(
    selected: torch.Tensor, real: torch.Tensor, rows: torch.Tensor
) -> list[np.ndarray]:
    """What the new tokens of a text select: positions, ascending int32.

    `selected` is boolean [new, keys] of the last columns of the text, `real` [columns] false for
    padding, and `rows` are those of the new columns that are tokens.
    """
    new, keys = selected.shape
    positions = (real.long().cumsum(0) - 1)[-keys:]
    seen = (selected.cpu() & real[-keys:]).tril(keys - new)
    return [positions[seen[row]].numpy().astype(np.int32) for row in rows.tolist()]


def padded(rows: list[np.ndarray]) -> np.ndarray:
    """Such rows as a trace stores them: int32 [tokens, K], -1 behind."""
    width = max((len(row) for row in rows), default=0)
    found = np.full((len(rows), max(width, 1)), -1, np.int32)
    for row, tokens in zip(found, rows):
        row[: len(tokens)] = tokens
    return found
