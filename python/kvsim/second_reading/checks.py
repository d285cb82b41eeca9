"""Texts that can be read again, and why others cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import DataError, RecordError, UsageError
from ..model.same_keys import KEY_TOLERANCE, key_difference
from ..model.tokens import text_id

if TYPE_CHECKING:
    import torch

    from ..trace import Trace, Unit
    from ..trace.contents import Layer, Sequence

READS = ("prompt", "text")

REACHES = ("sliding_window", "attention_chunk")
OF_LAYER = {
    "sliding_window": "attends to the last {} tokens only",
    "attention_chunk": "attends within chunks of {} tokens only",
    "kv_from": "reads the keys and values of layer {}, whose scores would be those of both",
    "has_selected": "selects what it attends to, and leaves tokens without a score",
}
"""What a layer may do that leaves its scores without a meaning, by attributes of trace.Layer.

REACHES do so where they are shorter than the text and what is read again.
"""


@dataclass(frozen=True)
class Text:
    """What is read again of a sequence."""

    name: str
    ids: list[int]
    text_id: str  # of the whole text of the sequence
    layers: tuple[Layer, ...]

    def witness(self, trace: Trace) -> Unit:
        """A KV head of the trace, to compare keys with."""
        return _witness(trace, self.name, self.layers)


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
    end = sequence.prompt_length if reads == "prompt" else sequence.num_tokens
    _require_layers(name, sequence.layers, end)
    ids = _witness(trace, name, sequence.layers).token_ids
    if len(ids) == 0:
        raise DataError(
            f"sequence {name}: expected token ids, found none; record the text with kvsim.recording"
        )
    return Text(name, ids[:end].tolist(), text_id(ids), sequence.layers)


def _witness(trace: Trace, name: str, layers: tuple[Layer, ...]) -> Unit:
    return trace.unit(name, layers[-1].index, layers[-1].kv_heads[0])


def _require_layers(
    name: str, layers: tuple[Layer, ...], num_tokens: int, repeated: int | None = None
) -> None:
    for layer in layers:
        found = {each: getattr(layer, each) for each in OF_LAYER}
        if reason := why_not(layer.index, found, num_tokens, repeated):
            raise DataError(f"sequence {name}: {reason}")


def why_not(
    layer: int, found: Mapping[str, Any], num_tokens: int, repeated: int | None
) -> str | None:
    """Why a layer cannot be scored, by the values of OF_LAYER; None: it can.

    `repeated`: the most tokens that are read after the `num_tokens` of the text; None: not known
    yet, at least one.
    """
    for name, value in found.items():
        if value is None or value is False:
            continue
        reason = f"layer {layer} {OF_LAYER[name].format(value)}"
        if name in REACHES:
            if num_tokens + (repeated or 1) <= value:
                continue
            again = "those" if repeated is None else repeated
            reason += f", fewer than the text's {num_tokens} and {again} to read again"
        return f"{reason}; leave it out of the trace"
    return None


def require_model(config: Any, trace: Trace) -> None:
    """Raises UsageError for a model of another number of layers than the trace's."""
    if config.num_hidden_layers != trace.num_layers:
        raise UsageError(
            f"model: expected {trace.num_layers} layers, as in the trace, found "
            f"{config.num_hidden_layers}; give the model that the trace is of"
        )


def require_room(config: Any, text: Text, longest: list[int]) -> None:
    """Raises UsageError unless the model may read this after the text, which is the longest part.

    Raises DataError for a layer that does not attend to all of that, RecordError where the model
    would rotate keys otherwise than those of the text.
    """
    _require_layers(text.name, text.layers, len(text.ids), len(longest))
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


def require_same_keys(witness: Unit, key: torch.Tensor) -> None:
    """Raises UsageError if keys [KV heads, n, d] of its layer are not those of the witness."""
    found = key[witness.kv_head].float().cpu().numpy()
    if not key_difference(found, witness.key[: len(found)]) <= KEY_TOLERANCE:
        raise UsageError(
            f"model: its keys of sequence {witness.sequence}, layer {witness.layer}, are others "
            "than in the trace; give the model that the trace is of"
        )
