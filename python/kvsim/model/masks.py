"""Decides whether a trace can express an attention mask: causal, with padding and a reach."""

from dataclasses import dataclass

import torch

ROWS_AT_ONCE = 256


@dataclass(frozen=True)
class Reach:
    """Which earlier tokens a query sees. Without window and chunk, all of them."""

    window: int | None = None  # the last so many, its own included
    chunk: int | None = None  # those of its own chunk of so many (Llama 4)

    def __str__(self) -> str:
        parts = [f"a window of {self.window}"] if self.window else []
        return " and ".join([*parts, f"chunks of {self.chunk}"] if self.chunk else parts)

    def first_of(self, position: torch.Tensor) -> torch.Tensor:
        """The position of the first token that a query at `position` sees, perhaps below 0."""
        first = torch.zeros_like(position)
        if self.window is not None:
            first = torch.maximum(first, position - self.window + 1)
        if self.chunk is not None:
            first = torch.maximum(first, position // self.chunk * self.chunk)
        return first


def is_expressible(
    mask: torch.Tensor | None,
    real: torch.Tensor,
    num_queries: int,
    num_keys: int,
    reach: Reach,
    causal_without_mask: bool,
) -> bool:
    """Whether every real query sees exactly the real keys up to itself within its reach.

    `mask` is [batch or 1, heads or 1, queries, at least keys], boolean (true: visible) or added to
    the logits. None means that the attention function has no mask. `real` is a boolean
    [batch, tokens] over all tokens so far, false for padding. The last `num_queries` tokens are
    the queries; the cache holds the keys of the last `num_keys` tokens.
    """
    tokens = real.shape[1]
    first_query, first_key = tokens - num_queries, tokens - num_keys
    if first_key < 0:
        return False
    padding = (real.long().cumsum(1) == 0).sum(1, keepdim=True)  # on the left
    # The columns of the first keys that the first and the last query see.
    first_seen, last_seen = (
        padding + reach.first_of((column - padding).clamp(min=0))
        for column in (first_query, tokens - 1)
    )
    if first_key > 0 and bool((first_seen < first_key).any()):
        return False  # the cache has dropped a key that a query should see
    if mask is None:
        if num_queries > 1 and not (causal_without_mask and num_queries == num_keys):
            return False
        return bool(real[:, first_key:].all()) and bool((last_seen <= first_key).all())
    if mask.dim() != 4 or mask.shape[3] < num_keys or mask.shape[2] < num_queries:
        return False
    real, padding = real.to(mask.device), padding.to(mask.device)
    # Looked at together, so that the CPU waits for a device once.
    wrong = [(mask != mask[:, :1]).any()] if mask.shape[1] > 1 else []
    keys = torch.arange(first_key, tokens, device=mask.device)
    for start in range(0, num_queries, ROWS_AT_ONCE):
        end = min(start + ROWS_AT_ONCE, num_queries)
        queries = torch.arange(first_query + start, first_query + end, device=mask.device)
        first = padding + reach.first_of((queries - padding).clamp(min=0))
        expected = (keys <= queries[:, None]) & (keys >= first[..., None])
        visible, is_other = _shown_and_other(mask[:, 0, start:end, :num_keys])
        differs = visible != (expected & real[:, None, first_key:])
        wrong += [is_other, (differs & real[:, queries, None]).any()]
        if mask.device.type == "cpu" and any(wrong[-2:]):
            return False
    return not bool(torch.stack(wrong).any())


def booleans_of(rows: torch.Tensor) -> torch.Tensor | None:
    """The mask as booleans, true for what it shows.

    None if it holds other numbers, such as a bias by distance.
    """
    if rows.dtype == torch.bool:
        return rows
    visible, is_other = _shown_and_other(rows)
    return None if bool(is_other) else visible


def _shown_and_other(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What a mask shows, and whether it holds numbers that neither show nor hide: boolean []."""
    if rows.dtype == torch.bool:
        return rows, torch.zeros((), dtype=torch.bool, device=rows.device)
    visible = rows == 0
    hidden = rows <= torch.finfo(rows.dtype).min / 2
    return visible, ~(visible | hidden).all()
