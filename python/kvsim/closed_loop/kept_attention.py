"""Attention of a running model to the tokens that a cache holds, head by head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..model.attention import is_causal, shown_by

if TYPE_CHECKING:
    from ..model.attention import Call

# Steps per mask. On a CPU masks of few steps stay in the processor's cache, and fewer tokens that
# no step sees are multiplied. Measured on two cores at 1,024 tokens.
STEPS_OF_CPU = 128


@dataclass(frozen=True)
class Selected:
    """What each step of a KV head attends to, of a policy that selects: n steps in rows."""

    offsets: np.ndarray  # int64 [n + 1]; a step of the prompt has none: it attends to all
    tokens: np.ndarray  # int32: of step t those from offsets[t] to offsets[t + 1]


# Of one layer of one configuration: evicted_after int32 [Hkv, n], or what each KV head selects.
Kept = np.ndarray | list[Selected]


def attend_to_kept(call: Call, kept: Sequence[Kept], most_bytes: int) -> torch.Tensor:
    """The output [batch, n, Hq, dim] of a call in which each KV head sees only what it keeps.

    `kept` has an entry per member of the batch. Token j is visible at step t if j <= t, it is kept
    after step t - 1 (evicted_after[j] >= t), and the model's own mask shows it. The call must be of
    whole texts without padding. Masks are made for as many steps and members at once as
    `most_bytes` hold.
    """
    batch, num_heads, n, _ = call.query.shape
    num_kv_heads = call.key.shape[1]
    of_row = num_kv_heads * n * (1 + 2 * call.query.element_size())  # with what attention makes
    rows = max(1, min(n, most_bytes // of_row))
    if call.query.device.type == "cpu":
        rows = min(rows, STEPS_OF_CPU)
    members = max(1, min(batch, most_bytes // (of_row * rows)))
    own = _hidden_by_model(call)
    output = call.value.new_empty(batch, n, num_heads, call.value.shape[3])
    for first in range(0, batch, members):
        some = slice(first, min(first + members, batch))
        sets = _Sets(kept[some], call.query.device)
        for start in range(0, n, rows):
            end = min(start + rows, n)
            hidden = sets.hidden(start, end).unflatten(0, (-1, num_kv_heads))
            if own is None:
                hidden[..., start:] |= _future(end - start, hidden.device)
            else:
                of_members = own[some] if own.shape[0] > 1 else own
                hidden |= of_members[:, None, start:end, :end]
            part = call.part(some, slice(start, end), slice(0, end))
            output[some, start:end], _ = part.attend_to(~hidden)
    return output


def _hidden_by_model(call: Call) -> torch.Tensor | None:
    """What the model's own mask hides, boolean [batch or 1, n, n]; None: the future alone."""
    n = call.query.shape[2]
    shown = shown_by(call.mask, call.key.shape[2])
    if shown is not None:
        return ~shown[:, 0]
    if is_causal(call.module, call.options):
        return None
    return torch.zeros(1, n, n, dtype=torch.bool, device=call.query.device)


def _future(steps: int, device: torch.device) -> torch.Tensor:
    return torch.ones(steps, steps, dtype=torch.bool, device=device).triu_(1)


class _Sets:
    """The kept sets of some members of a batch, on the device of the model."""

    def __init__(self, kept: Sequence[Kept], device: torch.device) -> None:
        self._device = device
        self._selected = [head for each in kept if isinstance(each, list) for head in each]
        stay = [each for each in kept if not isinstance(each, list)]
        self._evicted_after = torch.tensor(np.concatenate(stay), device=device) if stay else None
        self._selects = [isinstance(each, list) for each in kept for _ in range(len(each))]

    def hidden(self, start: int, end: int) -> torch.Tensor:
        """What is not in the cache of steps [start, end), boolean [members * Hkv, steps, end]."""
        steps = torch.arange(start, end, dtype=torch.int32, device=self._device)[:, None]
        if self._evicted_after is None:
            return self._not_selected(start, end)
        hidden = self._evicted_after[:, None, :end] < steps
        if not self._selected:
            return hidden
        both = hidden.new_empty(len(self._selects), end - start, end)
        for selects, rows in ((False, hidden), (True, self._not_selected(start, end))):
            at = [head for head, each in enumerate(self._selects) if each == selects]
            both[torch.tensor(at, device=self._device)] = rows
        return both

    def _not_selected(self, start: int, end: int) -> torch.Tensor:
        shape = len(self._selected), end - start, end
        hidden = torch.ones(shape, dtype=torch.bool, device=self._device)
        for head, selected in enumerate(self._selected):
            begin, after = selected.offsets[start], selected.offsets[end]
            counts = np.diff(selected.offsets[start : end + 1])
            hidden[head, torch.tensor(counts == 0, device=self._device)] = False
            rows = np.repeat(np.arange(end - start), counts)
            tokens = selected.tokens[begin:after]
            at = (torch.tensor(x, device=self._device).long() for x in (rows, tokens))
            hidden[(head, *at)] = False
        return hidden
