"""Decides whether a trace can express an attention mask: causal, with padding and a window."""

import torch

ROWS_AT_ONCE = 256


def is_expressible(
    mask: torch.Tensor | None,
    real: torch.Tensor,
    num_queries: int,
    num_keys: int,
    window: int | None,
    causal_without_mask: bool,
) -> bool:
    """Whether every real query sees exactly the real keys up to itself within its window.

    `mask` is [batch or 1, heads or 1, queries, at least keys], boolean (true: visible) or added to
    the logits. None means that the attention function has no mask. `real` is a boolean
    [batch, tokens] over all tokens so far, false for padding. The last `num_queries` tokens are
    the queries; the cache holds the keys of the last `num_keys` tokens.
    """
    tokens = real.shape[1]
    first_query, first_key = tokens - num_queries, tokens - num_keys
    if first_key < 0:
        return False
    if first_key > 0 and (window is None or first_query - first_key + 1 < window):
        return False  # the cache has dropped a key that a query should see
    if mask is None:
        if num_queries > 1 and not (causal_without_mask and num_queries == num_keys):
            return False
        return bool(real[:, first_key:].all()) and (window is None or num_keys <= window)
    if mask.dim() != 4 or mask.shape[3] < num_keys or mask.shape[2] < num_queries:
        return False
    if mask.shape[1] > 1 and not bool((mask == mask[:, :1]).all()):
        return False
    real = real.to(mask.device)
    keys = torch.arange(first_key, tokens, device=mask.device)
    for start in range(0, num_queries, ROWS_AT_ONCE):
        end = min(start + ROWS_AT_ONCE, num_queries)
        queries = torch.arange(first_query + start, first_query + end, device=mask.device)
        distance = queries[:, None] - keys[None, :]
        expected = distance >= 0 if window is None else (distance >= 0) & (distance < window)
        visible = _visible(mask[:, 0, start:end, :num_keys])
        if visible is None:
            return False
        wrong = visible != (expected[None] & real[:, None, first_key:])
        if bool((wrong & real[:, queries, None]).any()):
            return False
    return True


def _visible(rows: torch.Tensor) -> torch.Tensor | None:
    """The mask as booleans. None if it holds other numbers, such as a bias by distance."""
    if rows.dtype == torch.bool:
        return rows
    visible = rows == 0
    hidden = rows <= torch.finfo(rows.dtype).min / 2
    return visible if bool((visible | hidden).all()) else None
