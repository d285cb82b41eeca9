"""Attention of a running model to the tokens that its caches hold, head by head."""

from __future__ import annotations

import torch

from ...model.attention import Call, Result, shown_by

PADDING = -1  # the position of a column that is no token
NO_STEP = torch.iinfo(torch.int32).max  # the step of a query that is none
MOST_BYTES = 1 << 28  # of masks at a time
ROWS_AT_ONCE = 256  # so that few products are of queries with later keys


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
    `steps` are those of the queries, int32 [batch, queries] on the CPU, NO_STEP where a query is of
    no token.
    Step t sees token j if j <= t, evicted_after[j] >= t and, with `use_own_mask`, the model's own
    mask shows it. A query of no token sees everything, since its output must be finite.

    Masks are made for as many members of the batch and queries at once as `most_bytes` hold.
    """
    batch, num_kv_heads, num_keys = evicted_after.shape
    num_queries = steps.shape[1]
    # A boolean mask, the parts of which it is made, and what the attention makes of it.
    of_row = num_kv_heads * num_keys * (3 + 2 * call.query.element_size())
    rows = max(1, min(num_queries, ROWS_AT_ONCE, most_bytes // of_row))
    members = max(1, min(batch, most_bytes // (of_row * rows)))
    is_padded = bool((steps == NO_STEP).any())
    steps = steps.to(call.query.device)
    outputs, weights = [], []
    for first in range(0, batch, members):
        some = slice(first, first + members)
        of_members = []
        for row in range(0, num_queries, rows):
            last = min(row + rows, num_queries)
            keys = num_keys - num_queries + last  # later ones are the future of these queries
            part = call.part(some, slice(row, last), slice(0, keys))
            at = steps[some, None, row:last, None]
            here = positions[some, :, None, :keys]
            visible = evicted_after[some, :, None, :keys] >= at
            visible &= (here <= at) & (here != PADDING)
            own = shown_by(part.mask, keys) if use_own_mask else None
            if own is not None:
                visible &= own[:, :1]
            if is_padded:
                visible |= at == NO_STEP
            output, weight = part.attend_to(visible)
            of_members.append(output)
            if weight is not None:
                weights.append(torch.nn.functional.pad(weight, (0, num_keys - keys)))
        outputs.append(_joined(of_members, 1))
    if not weights:
        return _joined(outputs, 0), None
    parts = len(range(0, num_queries, rows))
    of_members = [_joined(weights[at : at + parts], 2) for at in range(0, len(weights), parts)]
    return _joined(outputs, 0), _joined(of_members, 0)


def _joined(parts: list[torch.Tensor], dim: int) -> torch.Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)
