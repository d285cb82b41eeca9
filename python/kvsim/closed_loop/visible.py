"""Attention of a running model to the tokens that its caches hold, head by head."""

from __future__ import annotations

import torch

from ..model.attention import Call, Result, shown_by

PADDING = -1  # the position of a column that is no token
NO_STEP = torch.iinfo(torch.int32).max  # the step of a query that is none
MOST_BYTES = 1 << 28  # of masks at a time


def attend_to_kept(
    call: Call,
    positions: torch.Tensor,
    evicted_after: torch.Tensor,
    steps: torch.Tensor,
    use_own_mask: bool = True,
    most_bytes: int = MOST_BYTES,
) -> Result:
    """The result of a call in which each KV head sees only what its cache holds.

    `positions` are those of the keys in the text, int32 [batch, KV heads or 1, keys], PADDING where
    a key is of no token; `evicted_after` is of the same tokens, int32 [batch, KV heads, keys].
    `steps` are those of the queries, int32 [batch, queries], NO_STEP where a query is of no token.
    Step t sees token j if j <= t, evicted_after[j] >= t and, with `use_own_mask`, the model's own
    mask shows it.

    Masks are made for as many members of the batch and queries at once as `most_bytes` hold.
    """
    batch, num_kv_heads, num_keys = evicted_after.shape
    num_queries = steps.shape[1]
    # A boolean mask, the parts of which it is made, and what the attention makes of it.
    of_row = num_kv_heads * num_keys * (3 + 2 * call.query.element_size())
    rows = max(1, min(num_queries, most_bytes // of_row))
    members = max(1, min(batch, most_bytes // (of_row * rows)))
    outputs, weights = [], []
    for first in range(0, batch, members):
        some = slice(first, first + members)
        of_members = []
        for row in range(0, num_queries, rows):
            part = call.part(some, slice(row, row + rows))
            at = steps[some, None, row : row + rows, None]
            visible = evicted_after[some, :, None] >= at
            visible &= (positions[some, :, None] <= at) & (positions[some, :, None] != PADDING)
            own = shown_by(part.mask, num_keys) if use_own_mask else None
            of_members.append(part.attend_to(visible if own is None else visible & own[:, :1]))
        outputs.append(_joined([output for output, _ in of_members], 1))
        if of_members[0][1] is not None:
            weights.append(_joined([weight for _, weight in of_members], 2))
    return _joined(outputs, 0), _joined(weights, 0) if weights else None


def _joined(parts: list[torch.Tensor], dim: int) -> torch.Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)
