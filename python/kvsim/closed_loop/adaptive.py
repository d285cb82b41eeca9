"""Policies that decide while the model reads a given text, many configurations as one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from .. import _engine
from ..errors import RecordError
from ..model.cache import cache_argument, returned_cache
from ..model.rope import rotates_by_length
from .evicting_model import EvictingModel
from .evicting_model.geometry import PROBED_TOKENS, Geometry, geometry_of
from .loops import How, Job, Outcome, Plan

if TYPE_CHECKING:
    from ..trace import Trace

LARGEST_BATCH = 64
# On a CPU, whole texts gain nothing from a batch: their activations leave the processor's caches.
LARGEST_BATCH_OF_CPU = 4
MEASURED_SPLITS = ("adaptive", "persistence", "cake")


def refused(flags: dict[str, object]) -> str | None:
    """Why a running model cannot evict by a policy with these flags (those of _engine.specs)."""
    if flags["is_oracle"]:
        return "it sees the future, which a running model does not have"
    if flags["sees_full_attention"]:
        return "it sees the attention over tokens that have left, which an evicting model lacks"
    if flags["selects"]:
        return "it keeps every token and sees the attention over all of them"
    return None


def run(
    model: torch.nn.Module,
    job: Job,
    plans: Sequence[Plan],
    how: How,
    most_bytes: int,
    trace: Trace,
    element_bytes: int | None = None,
) -> Iterator[tuple[Plan, Outcome]]:
    """Each plan with its outcome, as a batch of them is finished; in no particular order.

    Policies that decide per head or layer take one forward pass over the text. Those that decide
    over all layers, and those that see attention where layers share a cache, take one token at a
    time, after the prompt in prefill mode. The logits and the masks of a batch fit into
    `most_bytes`. `trace` is of the same text: a split of the budget that follows measurements is
    measured on it. A number of a cache counts `element_bytes`; None: as many as in the model.

    Raises what kvsim.evicting raises.
    """
    length = len(job.ids) if rotates_by_length(model) else PROBED_TOKENS
    geometry = geometry_of(model, [plan.policy for plan in plans], length)
    if element_bytes is not None:
        geometry = replace(geometry, element_bytes=element_bytes)
    estimators = _estimators(plans, how)
    in_passes: list[tuple[Plan, Any]] = []
    in_steps: list[tuple[Plan, Any]] = []
    for plan in plans:
        caches = _caches(geometry, job, plan, how, trace)
        (in_steps if caches.takes_single_steps else in_passes).append((plan, caches))
    of_logits = len(job.ids) * model.config.get_text_config().vocab_size * 4
    fitting = max(1, most_bytes // 2 // of_logits)
    on_cpu = model.device.type == "cpu"
    at_once = min(fitting, LARGEST_BATCH_OF_CPU if on_cpu else LARGEST_BATCH)
    prompt = how.first_step(job)
    for configurations, size, read in (
        (in_passes, at_once, whole_text),
        (in_steps, min(fitting, LARGEST_BATCH), partial(token_by_token, prompt=prompt)),
    ):
        batches = _batches(model, job, configurations, how, geometry, size, most_bytes, read)
        for plan, caches, logits in batches:
            is_set = plan.policy not in estimators
            kept = {layer: caches.evicted_after(layer) for layer in geometry.layers}
            peak, size_in_bytes = caches.peak_tokens, caches.cache_bytes
            yield plan, Outcome(logits, kept if is_set else None, peak, size_in_bytes, is_set)


def whole_text(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """The logits [batch, n, vocabulary] of one forward pass over ids [batch, n]."""
    return model(input_ids=ids, use_cache=False).logits


def token_by_token(model: torch.nn.Module, ids: torch.Tensor, prompt: int) -> torch.Tensor:
    """The same of a forward pass over the prompt and one for each later token."""
    logits, cache, start = None, None, 0
    while start < ids.shape[1]:
        end = max(prompt, start + 1)
        output = model(input_ids=ids[:, start:end], use_cache=True, **cache_argument(model, cache))
        cache = returned_cache(output)
        if logits is None:
            logits = output.logits.new_empty(*ids.shape, output.logits.shape[2])
        logits[:, start:end] = output.logits
        start = end
    return logits


def _batches(
    model: torch.nn.Module,
    job: Job,
    configurations: list[tuple[Plan, Any]],
    how: How,
    geometry: Geometry,
    at_once: int,
    most_bytes: int,
    read: Callable[[torch.nn.Module, torch.Tensor], torch.Tensor],
) -> Iterator[tuple[Plan, Any, torch.Tensor]]:
    """Lets the model read the text under `at_once` configurations at a time, and frees them."""
    ids = torch.from_numpy(job.ids).long().to(model.device)
    while configurations:
        batch = [configurations.pop(0) for _ in range(min(at_once, len(configurations)))]
        running = EvictingModel(
            model, geometry, lambda begin, batch=batch: batch[begin.index][1],
            protocol=how.protocol, prompt_length=job.prompt_length, most_bytes=most_bytes // 2,
        )  # fmt: skip
        try:
            with running.following(model), torch.inference_mode():
                logits = read(model, ids.expand(len(batch), -1))
                running.finish()
        except RecordError as error:
            members = ", ".join(f"{plan.policy} at {plan.budget} tokens" for plan, _ in batch)
            raise RecordError(f"text {job.name}: {error}; the batch: {members}") from error
        for index, (plan, caches) in enumerate(batch):
            yield plan, caches, logits[index]


def _estimators(plans: Sequence[Plan], how: How) -> set[str]:
    specs = _engine.specs(list(dict.fromkeys(plan.policy for plan in plans)), how.allocate)
    return {str(flags["text"]) for flags in specs if flags["is_estimator"]}


def _caches(geometry: Geometry, job: Job, plan: Plan, how: How, trace: Trace) -> Any:
    text = {"sequence": job.name, "prompt_length": job.prompt_length, "num_tokens": len(job.ids)}
    budgets = None
    split = plan.policy.partition("@")[2] or how.allocate
    if split.partition(":")[0] in MEASURED_SPLITS:
        measured = {**how.options(), "sequences": [job.name]}
        of_heads = _engine.split_budgets(trace._opened, plan.policy, str(plan.budget), measured)
        budgets = [
            [of_head for at, _, of_head in of_heads if at == layer] for layer in geometry.layers
        ]
    shape, options = geometry.for_engine(), {**how.options(), **text}
    caches = _engine.RunningCaches(plan.policy, str(plan.budget), shape, options, budgets)
    if job.token_text:
        caches.add_text(list(job.token_text))
    return caches
