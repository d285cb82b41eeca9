"""Attention of a running model to the tokens that a cache holds, head by head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..model.attention import PREFIX, is_causal, shown_by

if TYPE_CHECKING:
    from ..model.attention import Call


@dataclass(frozen=True)
class Selected:
    """What each step of a KV head attends to, of a policy that selects: n steps in rows."""

    offsets: np.ndarray  # int64 [n + 1]
    tokens: np.ndarray  # int32: of step t those from offsets[t] to offsets[t + 1]


# Of one layer of one configuration: evicted_after int32 [Hkv, n], or what each KV head selects.
Kept = np.ndarray | list[Selected]


def attend_to_kept(call: Call, kept: list[Kept], most_bytes: int) -> torch.Tensor:
    """The output [batch, n, Hq, dim] of a call in which each KV head sees only what it keeps.

    `kept` has an entry per member of the batch. Token j is visible at step t if j <= t, it is kept
    after step t - 1 (evicted_after[j] >= t), and the model's own mask shows it. The call must be of
    whole texts without padding. Masks are made for as many members at once as `most_bytes` hold,
    for one at least.

    KV heads stand in the place of the batch, and the query heads of each in that of the heads, so
    that a mask is made once for the heads that share it.
    """
    batch, num_heads, n, _ = call.query.shape
    num_kv_heads = call.key.shape[1]
    element = call.query.element_size()
    at_once = max(1, min(batch, most_bytes // (num_kv_heads * n * n * (element + 1))))
    hidden_by_model = _hidden_by_model(call)
    steps = torch.arange(n, dtype=torch.int32, device=call.query.device)[:, None]
    outputs = []
    for first in range(0, batch, at_once):
        members = slice(first, min(first + at_once, batch))
        hidden = torch.cat([_hidden(each, steps) for each in kept[members]])
        if hidden_by_model.shape[0] == 1:
            hidden |= hidden_by_model
        else:
            hidden |= hidden_by_model[members].repeat_interleave(num_kv_heads, 0)
        lowest = _lowest(call)
        mask = torch.zeros(hidden.shape, dtype=call.query.dtype, device=hidden.device)
        mask.masked_fill_(hidden, lowest)
        del hidden
        groups = num_heads // num_kv_heads
        query = call.query[members].reshape(-1, groups, *call.query.shape[2:])
        key, value = (x[members].flatten(0, 1)[:, None] for x in (call.key, call.value))
        output, _ = call.attention(call.module, query, key, value, mask[:, None], **call.options)
        output = output.unflatten(0, (-1, num_kv_heads))  # [members, Hkv, n, G, dim]
        outputs.append(output.transpose(1, 2).flatten(2, 3))
    return torch.cat(outputs) if len(outputs) > 1 else outputs[0]


def _lowest(call: Call) -> float:
    """What hides a token; eager attention adds its mask and needs a finite one."""
    eager = call.module.config._attn_implementation == PREFIX + "eager"
    return torch.finfo(call.query.dtype).min if eager else -torch.inf


def _hidden_by_model(call: Call) -> torch.Tensor:
    """What the model's own mask and causality hide, boolean [batch or 1, n, n]."""
    n, device = call.query.shape[2], call.query.device
    shown = shown_by(call.mask, call.key.shape[2])
    if shown is None:
        if not is_causal(call.module, call.options):
            return torch.zeros(1, n, n, dtype=torch.bool, device=device)
        return torch.ones(1, n, n, dtype=torch.bool, device=device).triu_(1)
    return ~shown[:, 0]


def _hidden(kept: Kept, steps: torch.Tensor) -> torch.Tensor:
    """What is not in the cache, boolean [Hkv, n, n]."""
    if isinstance(kept, np.ndarray):
        return torch.tensor(kept, device=steps.device)[:, None, :] < steps
    n = len(steps)
    hidden = torch.ones(len(kept), n, n, dtype=torch.bool, device=steps.device)
    for head, selected in enumerate(kept):
        rows = np.repeat(np.arange(n), np.diff(selected.offsets))
        rows, tokens = (torch.tensor(x, device=steps.device) for x in (rows, selected.tokens))
        hidden[head, rows, tokens.long()] = False
    return hidden
