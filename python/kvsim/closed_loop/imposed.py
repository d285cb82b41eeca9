"""Kept sets of a replay, imposed on one forward pass of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from ..errors import RecordError
from ..model.attention import intercepted, layer_of
from ..model.shared_cache import SharedCaches
from .kept_attention import Kept, attend_to_kept
from .loops import Job, Outcome, Plan

if TYPE_CHECKING:
    import pandas as pd

    from ..model.attention import Call, Result

LARGEST_BATCH = 32
# On a CPU a batch saves no time: its activations leave the cache. Measured on two cores.
LARGEST_BATCH_OF_CPU = 1


def run(
    model: torch.nn.Module,
    job: Job,
    kept: Mapping[Plan, dict[int, Kept]],
    rows: Mapping[Plan, pd.DataFrame],
    most_bytes: int,
    token_bytes: Mapping[int, int],
) -> Iterator[tuple[Plan, Outcome]]:
    """What the model does under each of the kept sets (of every layer), in their order.

    Each forward pass takes a batch of them, whose logits and masks fit into `most_bytes`. `rows`
    are those of their replays, and a token has `token_bytes` in the cache of a KV head of each
    layer.
    """
    of_logits = len(job.ids) * model.config.get_text_config().vocab_size * 4
    largest = LARGEST_BATCH_OF_CPU if model.device.type == "cpu" else LARGEST_BATCH
    size = max(1, min(largest, most_bytes // 2 // of_logits))
    ids = torch.from_numpy(job.ids).long().to(model.device)
    plans = list(kept)
    for first in range(0, len(plans), size):
        batch = plans[first : first + size]
        sets = [kept[plan] for plan in batch]
        logits = forward(model, ids.expand(len(batch), -1), sets, most_bytes // 2)
        for index, plan in enumerate(batch):
            units = rows[plan]
            sizes = units.peak_tokens * units.layer.map(token_bytes)
            yield (
                plan,
                Outcome(
                    logits=logits[index],
                    kept=None,
                    peak_tokens=int(units.peak_tokens.max()),
                    cache_bytes=int(sizes.sum()),
                ),
            )


def forward(
    model: torch.nn.Module, ids: torch.Tensor, batch: Sequence[dict[int, Kept]], most_bytes: int
) -> torch.Tensor:
    """The logits [batch, n, vocabulary] of the texts `ids`, each under its kept sets.

    Layers that read another one's cache attend to what that one keeps.
    """
    seen = set()
    caches = SharedCaches()

    def intercept(call: Call) -> Result:
        layer = layer_of(call, model)
        if layer is None:
            return call.attend()
        if layer in seen:
            raise RecordError(f"layer {layer} attends twice in a forward pass")
        seen.add(layer)
        caches.look(layer, call)
        cache = caches.cache_of(layer)
        return attend_to_kept(call, [kept[cache] for kept in batch], most_bytes), None

    with torch.inference_mode(), intercepted(model, intercept):
        logits = model(input_ids=ids, use_cache=False).logits
    if missing := set(batch[0]) - seen:
        raise RecordError(f"layer {min(missing)} has no attention that was seen")
    return logits
