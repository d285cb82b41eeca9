"""Texts that can be read again, and why others cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError, RecordError, UsageError

if TYPE_CHECKING:
    import torch

    from ..trace import Trace, Unit
    from ..trace.contents import Layer, Sequence

READS = ("prompt", "text")

OF_LAYER = {
    "sliding_window": "attends to the last {} tokens only, and no longer to a text that is read "
    "again",
    "attention_chunk": "attends within chunks of {} tokens only, and not to a text that is read "
    "again in another one",
    "kv_from": "reads the keys and values of layer {}, whose scores would be those of both",
    "has_selected": "selects what it attends to, and leaves tokens without a score",
}
"""What a layer may do that leaves its scores without a meaning, by attributes of trace.Layer."""

# Of keys, relative to their length: half precision stays below, another model is far above.
KEY_TOLERANCE = 0.1


@dataclass(frozen=True)
class Text:
    """What is read again of a sequence."""

    name: str
    ids: list[int]
    layers: tuple[Layer, ...]
    witness: Unit  # a KV head of the trace, to compare keys with


def texts_of(trace: Trace, reads: str, sequences: list[str] | None) -> list[Text]:
    """The texts of these sequences, None: of all, in the order of the trace.

    Raises UsageError for a name that is not there and a text without a prompt where `reads` asks
    for it, DataError for a sequence without token ids or with a layer that cannot be scored.
    """
    if reads not in READS:
        raise UsageError(f"reads: expected {' or '.join(READS)}, found {reads!r}")
    there = [sequence.name for sequence in trace.sequences]
    for name in sequences or []:
        if name not in there:
            raise UsageError(f"sequences: expected some of {', '.join(there)}, found {name}")
    chosen = [each for each in trace.sequences if sequences is None or each.name in sequences]
    if not chosen:
        raise UsageError("sequences: expected one at least, found none")
    return [_text_of(trace, sequence, reads) for sequence in chosen]


def _text_of(trace: Trace, sequence: Sequence, reads: str) -> Text:
    name = sequence.name
    if reads == "prompt" and sequence.prompt_length == 0:
        raise UsageError(
            f"reads: sequence {name} has no prompt; say where it ends when it is recorded, or "
            'read the whole text again with reads="text"'
        )
    for layer in sequence.layers:
        found = {each: getattr(layer, each) for each in OF_LAYER}
        for each, value in found.items():
            if value is not None and value is not False:
                raise DataError(f"sequence {name}: {reason_of(layer.index, each, value)}")
    last = sequence.layers[-1]
    witness = trace.unit(name, last.index, last.kv_heads[0])
    if len(witness.token_ids) == 0:
        raise DataError(
            f"sequence {name}: expected token ids, found none; record the text with kvsim.recording"
        )
    end = sequence.prompt_length if reads == "prompt" else sequence.num_tokens
    return Text(name, witness.token_ids[:end].tolist(), sequence.layers, witness)


def reason_of(layer: int, name: str, value: object) -> str:
    """Why a layer is refused, by a name of OF_LAYER and its value."""
    return f"layer {layer} {OF_LAYER[name].format(value)}; leave it out of the trace"


def require_model(config: Any, trace: Trace) -> None:
    """Raises UsageError for a model of another number of layers than the trace's."""
    if config.num_hidden_layers != trace.num_layers:
        raise UsageError(
            f"model: expected {trace.num_layers} layers, as in the trace, found "
            f"{config.num_hidden_layers}; give the model that the trace is of"
        )


def require_room(config: Any, text: Text, longest: list[int]) -> None:
    """Raises UsageError unless the model may read this after the text, which is the longest part.

    Raises RecordError where it would rotate keys otherwise than those of the text.
    """
    num_tokens, total = len(text.ids), len(text.ids) + len(longest)
    positions = getattr(config, "max_position_embeddings", None)
    if positions and total > positions:
        raise UsageError(
            f"sequence {text.name}: {num_tokens} tokens and {len(longest)} to read again are more "
            f"than the model's {positions} positions; give a smaller chunk or a shorter text"
        )
    largest = max(*text.ids, *longest)
    if largest >= config.vocab_size:
        raise UsageError(
            f"sequence {text.name}: expected token ids below {config.vocab_size}, found {largest}; "
            "give the model that the trace is of, with its tokenizer"
        )
    rope = getattr(config, "rope_parameters", None) or {}
    first = rope.get("original_max_position_embeddings")
    if rope.get("rope_type") == "longrope" and first and num_tokens <= first < total:
        raise RecordError(
            f"sequence {text.name}: the model rotates keys otherwise beyond {first} tokens, which "
            f"{num_tokens} and {len(longest)} to read again are; give a smaller chunk"
        )


def require_same_keys(text: Text, layer: int, key: torch.Tensor) -> None:
    """Raises UsageError if keys [KV heads, n, d] of the text are not those of the trace.

    Only those of the witness are compared.
    """
    if layer != text.witness.layer:
        return
    found = key[text.witness.kv_head].float().cpu().numpy()
    expected = text.witness.key[: len(found)]
    error = np.linalg.norm(found - expected)
    if not error <= KEY_TOLERANCE * np.linalg.norm(expected):
        raise UsageError(
            f"model: its keys of sequence {text.name}, layer {layer}, are others than in the "
            "trace; give the model that the trace is of"
        )
