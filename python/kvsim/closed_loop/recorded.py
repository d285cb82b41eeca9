"""The trace of a text: recorded for the occasion, or checked if the user has one."""

from __future__ import annotations

import dataclasses
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..errors import RecordWarning, UsageError
from ..model.attention import Call, Result, intercepted, layer_of
from ..model.same_keys import KEY_TOLERANCE, key_difference
from ..trace import Trace
from .loops import Job

if TYPE_CHECKING:
    from ..record.also import Also
    from ..trace import Sequence


RECORDED_BYTES = 4  # of a number in a trace that is recorded for the occasion: float32


def full_logits(model: torch.nn.Module, job: Job) -> torch.Tensor:
    """The logits [n, vocabulary] with the full cache, of one forward pass."""
    with torch.inference_mode():
        ids = torch.from_numpy(job.ids).long()[None].to(model.device)
        return model(input_ids=ids, use_cache=False).logits[0]


def checked_logits(model: torch.nn.Module, job: Job, trace: Trace) -> torch.Tensor:
    """The same. Raises UsageError unless the model computes the keys that the trace holds."""

    def check(call: Call) -> Result:
        layer = layer_of(call, model)
        if layer is not None:
            _check_keys(trace, job.name, layer, call.key[0])
        return call.attend()

    with intercepted(model, check):
        return full_logits(model, job)


def _check_keys(trace: Trace, sequence: str, layer: int, key: torch.Tensor) -> None:
    found = next(each for each in trace.sequences if each.name == sequence)
    layers = {each.index: each for each in found.layers}
    if layer not in layers:
        raise UsageError(f"trace: it lacks layer {layer}; record all layers")
    heads = layers[layer].shape["num_kv_heads"]
    held = trace.unit(sequence, layers[layer].cache, 0).key
    if tuple(key.shape) != (heads, *held.shape):
        raise UsageError(
            f"trace: layer {layer} has keys {(heads, *held.shape)}, expected this "
            f"model's {tuple(key.shape)}: KV heads, tokens, dimensions"
        )
    difference = key_difference(key[0].float().cpu().numpy(), held)
    if not difference <= KEY_TOLERANCE:
        raise UsageError(
            f"trace: the keys of its layer {layer} are not this model's (they differ by "
            f"{difference:.0%}); record the text with this model, or leave trace out"
        )


@contextmanager
def recorded(
    model: torch.nn.Module, job: Job, tokenizer: Any, also: Also
) -> Iterator[tuple[Trace, torch.Tensor]]:
    """A float32 trace of the text, gone when the block ends, and the logits of its recording."""
    from ..record import recording

    with tempfile.TemporaryDirectory(prefix="kvsim-") as folder:
        path = Path(folder) / "trace.h5"
        with warnings.catch_warnings():
            # What needs to know it says so itself.
            warnings.filterwarnings("ignore", "the trace does not say how keys are", RecordWarning)
            with recording(
                model, path, tokenizer=tokenizer, dtype="float32", also=also.parts,
                gradient_samples=also.gradient_samples,
            ) as recorder:  # fmt: skip
                recorder.label([job.name], job.source, job.prompt_length, [job.spans])
                logits = full_logits(model, job)
        yield Trace(path), logits


def as_in_trace(trace: Trace, jobs: list[Job], prompt_given: bool) -> list[Job]:
    """The texts with the names, prompts and spans that the sequences of the same tokens have.

    Raises UsageError for a text that the trace lacks, or names or divides otherwise.
    """
    there = {sequence.name: (sequence, _token_ids(trace, sequence)) for sequence in trace.sequences}
    return [_as_in_trace(job, there, trace, prompt_given) for job in jobs]


def _as_in_trace(
    job: Job, there: dict[str, tuple[Sequence, np.ndarray]], trace: Trace, prompt_given: bool
) -> Job:
    named = there.get(job.name)
    if named is not None and not np.array_equal(named[1], job.ids):
        raise UsageError(
            f"trace: its sequence {job.name} has other tokens than {job.source} "
            f"({len(named[1])}, expected {len(job.ids)}); record that text"
        )
    same = [found for found, ids in there.values() if np.array_equal(ids, job.ids)]
    if not same:
        raise UsageError(
            f"trace: none of its {len(there)} sequences has the {len(job.ids)} tokens of "
            f"{job.source}; record that text, or leave trace out"
        )
    sequence = same[0] if named is None else named[0]
    if job.is_named and named is None:
        raise UsageError(
            f"trace: it names the text {sequence.name}, expected {job.name}; give it one name"
        )
    if prompt_given and sequence.prompt_length != job.prompt_length:
        raise UsageError(
            f"trace: {sequence.name} has a prompt of {sequence.prompt_length} tokens, expected "
            f"{job.prompt_length}"
        )
    for layer in sequence.layers:
        count, heads = len(layer.kv_heads), layer.shape["num_kv_heads"]
        if layer.kv_from is None and count != heads:
            raise UsageError(
                f"trace: layer {layer.index} of {sequence.name} has {count} of {heads} KV heads; "
                "record all"
            )
    spans = job.spans or tuple(getattr(sequence, "spans", ()))
    return dataclasses.replace(
        job, name=sequence.name, prompt_length=sequence.prompt_length, spans=spans
    )


def _token_ids(trace: Trace, sequence: Sequence) -> np.ndarray:
    layer = next((layer for layer in sequence.layers if layer.kv_heads), None)
    if layer is None:
        return np.empty(0, np.int32)
    return trace.unit(sequence.name, layer.index, layer.kv_heads[0]).token_ids
