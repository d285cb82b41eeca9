"""The scores of one attention call."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Part:
    """The tokens [start, end) of a text that are read again, and the first ones seen with them."""

    start: int
    end: int
    sinks: int

    @property
    def first_tokens(self) -> int:
        """Those of the text's first `sinks` tokens that come before the part."""
        return min(self.sinks, self.start)


def largest_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    part: Part,
    scale: float,
    softcap: float | None,
    sink_logit: torch.Tensor | None,
) -> torch.Tensor:
    """The largest attention that each token of the part gets, float32 [KV heads, end - start].

    `query` is [query heads, R, d], of the R tokens that are read again; `key` [KV heads, n + R, d],
    the last R their own. Each of them attends to the first tokens, the part, and those of the R up
    to itself; the softmax is over these alone (KVzip, arXiv 2505.23416, section 3). The maximum
    is over the R tokens and the query heads of a KV head. `sink_logit`, [query heads], takes its
    share of the attention.
    """
    repeated, group = query.shape[1], query.shape[0] // key.shape[0]
    first = part.first_tokens
    later = torch.ones(repeated, repeated, dtype=torch.bool, device=key.device).triu(1)
    found = []
    for head, own in enumerate(key):
        seen = torch.cat([own[:first], own[part.start : part.end], own[-repeated:]]).float()
        best = torch.zeros(part.end - part.start, device=key.device)
        for asking in range(head * group, (head + 1) * group):
            # In place, step by step: of these matrices one is held at a time.
            weights = (query[asking].float() @ seen.T).mul_(scale)
            if softcap is not None:
                weights.div_(softcap).tanh_().mul_(softcap)
            weights[:, -repeated:].masked_fill_(later, -torch.inf)
            top = weights.amax(1, keepdim=True)
            if sink_logit is not None:
                top = torch.maximum(top, sink_logit[asking].to(top))
            total = weights.sub_(top).exp_().sum(1, keepdim=True)
            if sink_logit is not None:
                total += (sink_logit[asking].to(top) - top).exp_()
            scored = weights[:, first : first + len(best)].div_(total)
            best = torch.maximum(best, scored.amax(0))
        found.append(best)
    return torch.stack(found).cpu()
