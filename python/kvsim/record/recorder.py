"""Turns the forward passes and attention calls of a model into a trace."""

import warnings
from collections.abc import Iterable
from collections.abc import Sequence as Several
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..errors import RecordError, RecordWarning, UsageError
from ..model.attention import Call, Result
from ..model.follower import Follower
from ..model.rope import RopeWitness
from ..model.steps import Step
from ..model.tokens import token_texts
from ..trace.spans import Span, checked_spans
from .accuracy import check_accuracy
from .sequence import Sequence
from .trace_file import Attribute, TraceFile


@dataclass(frozen=True)
class Label:
    """What the caller says about a sequence before it begins."""

    name: str
    source: str
    prompt_length: int | None  # None: what `generate` reads, else nothing
    spans: tuple[Span, ...] = ()  # of tokens


class Recorder(Follower):
    """Records the attention of the model step by step, in memory that does not grow."""

    def __init__(
        self,
        model: torch.nn.Module,
        file: TraceFile,
        witness: RopeWitness,
        layers: Several[int],
        dtype: str,
        ends: set[int],
        source: str,
        prompt_length: int | None = None,
    ) -> None:
        super().__init__(model, set(layers))
        self._file, self._witness = file, witness
        self._dtype, self._ends = dtype, ends
        # of sequences whose label has none
        self._source, self._prompt_length = source, _checked(prompt_length)
        self._model_name = type(model).__name__
        self._labels: list[Label] = []
        self._done: list[Sequence] = []
        self._batch: list[Sequence] = []
        self._first: list[int] = []  # the position of each sequence's first new token
        self._positions_known = True

    @property
    def sequences(self) -> Several[Sequence]:
        """Those that are whole: after `finish`, all."""
        return self._done

    @property
    def num_query_heads(self) -> int:
        return self._shape.num_query_heads

    @property
    def layers(self) -> set[int]:
        """The layers whose attention was called."""
        return self._consistency.layers

    def label(
        self,
        names: Several[str],
        source: str = "",
        prompt_length: int | None = None,
        spans: Several[Iterable[tuple[int, int, str]]] | None = None,
    ) -> None:
        """Names the next sequences. Unnamed ones are sequence-0, sequence-1, ...

        `prompt_length` is the number of tokens of each prompt. Give it if the tokens that follow
        the prompt are given, too, or if you run your own generation loop; else the prompt is the
        input of `generate`. If the sequence then has fewer tokens, that is a UsageError; if it ends
        with its prompt, a RecordWarning, and the trace notes no prompt.

        `spans` are labelled parts of each text, for each name a list of (first token, token after
        the last, label), special tokens counted and padding not:
        `recorder.label(["one"], spans=[[(12, 14, "needle"), (90, 91, "answer")]])`. A span that
        ends after its sequence is a UsageError.
        """
        prompt_length = _checked(prompt_length)
        if isinstance(names, str):
            raise UsageError(f"names: expected a list of names, found the text {names!r}")
        names = list(names)
        parts = [()] * len(names) if spans is None else [_spans_of_one(each) for each in spans]
        if len(parts) != len(names):
            raise UsageError(
                f"spans: expected a list for each of {len(names)} names, found {len(parts)}"
            )
        for name, own_spans in zip(names, parts, strict=True):
            if not name or "/" in name or name == ".":
                raise UsageError(f"sequence name: expected one without a slash, found {name!r}")
            own = self._prompt_length if prompt_length is None else prompt_length
            self._labels.append(Label(name, source or self._source, own, own_spans))

    def _feed(self, step: Step) -> None:
        self._positions_known &= step.positions_known
        self._first = [sequence.num_tokens for sequence in self._batch]
        # A single text ends with its last forward pass. In a batch, a text that has ended is fed
        # padding until the longest one ends.
        ends = self._ends if len(self._batch) > 1 else set()
        for index, sequence in enumerate(self._batch):
            ids = None if step.ids is None else step.ids[index]
            in_prompt = self._in_prompt(step, sequence.num_tokens, sequence.known_prompt)
            sequence.feed(ids, step.real_new[index], in_prompt, ends)

    def _end_step(self, step: Step, output: Any) -> None:
        self._witness.forget()

    def _begin_sequences(self, step: Step) -> None:
        for _ in range(step.real.shape[0]):
            number = len(self._done) + len(self._batch)
            unnamed = Label(f"sequence-{number}", self._source, self._prompt_length)
            label = self._labels.pop(0) if self._labels else unnamed
            path = f"sequences/{label.name}"
            if path in self._file.h5:
                raise UsageError(f"two sequences are named {label.name}")
            group = self._file.h5.create_group(path)
            self._batch.append(
                Sequence(group, label.source, self._dtype, label.prompt_length, label.spans)
            )

    def _attend(self, layer: int, call: Call, step: Step) -> Result:
        """Records one attention call and lets it be computed."""
        result = call.attend()
        output = result[0]
        self._check_shape(layer, call, output)
        self._check_cache(layer, call, step)
        query, key, value = call.query, call.key, call.value
        new = {"query": query, "key": key[:, :, -step.new :], "value": value[:, :, -step.new :]}
        self._witness.look(layer, new["key"], step.real_new, self._first)
        new["output"] = output.transpose(1, 2)
        for index, sequence in enumerate(self._batch):
            sequence.append(layer, {name: tensor[index] for name, tensor in new.items()})
        return result

    def _end_sequences(self, failed: bool) -> None:
        if failed:
            self._leave_out(self._batch)
        for sequence in self._batch:
            sequence.close()
            expected = (self._done or self._batch)[0].layers
            if sequence.layers != expected:
                raise RecordError(
                    f"sequence {sequence.name} has layers {sequence.layers}, an earlier one "
                    f"{expected}; does the model skip layers?"
                )
            if self._shape is not None:
                reaches = {layer: self._consistency.reach(layer) for layer in sequence.layers}
                sinks = {layer: logits.numpy() for layer, logits in self._sinks.items()}
                check_accuracy(
                    sequence.name, sequence.vectors, reaches, sinks, self._shape, sequence.rounded
                )
        self._done += self._batch
        self._batch = []

    def _leave_out(self, batch: list[Sequence]) -> None:
        """Removes sequences whose forward pass raised: a trace holds only whole sequences."""
        for sequence in batch:
            del self._file.h5[f"sequences/{sequence.name}"]
            reason = "a forward pass on it failed"
            warnings.warn(f"sequence {sequence.name} is left out: {reason}", RecordWarning)
        self._batch, self._step = [], None

    def finish(self, header: dict[str, Attribute], tokenizer: Any) -> None:
        """Writes everything except the vectors. Raises RecordError if nothing was recorded."""
        self._end_sequences(failed=self._step is not None)
        if self._shape is None and self._done:
            everything = len(self._layers) == self._text_config.num_hidden_layers
            where = "" if everything else f" in layers {sorted(self._layers)}"
            raise RecordError(f"{self._model_name} has no attention that can be recorded{where}")
        if not self._done:
            raise RecordError("no attention was recorded; run the model inside the recording")
        if self._labels:
            raise UsageError(f"names: no text came for {self._labels[0].name}")
        shared = {name: value for name, value in vars(self._shape).items() if value is not None}
        self._file.write_attributes("/", {**header, **shared, "dtype": self._dtype})
        for sequence in self._done:
            self._finish_sequence(sequence, tokenizer)
        rope = self._witness.result(sorted(self.layers)) if self._positions_known else None
        if rope is not None:
            self._file.write_list("/rope/inv_freq", np.array(rope.inv_freq, np.float64))
            kind: dict[str, Attribute] = {"style": rope.style}
            self._file.write_attributes("/rope", kind | {"attention_factor": rope.attention_factor})
        elif self._witness.rotates:
            warnings.warn(
                "the trace does not say how keys are rotated: not all layers and steps do it "
                "alike, or not by position in the text; positions=slot cannot be replayed on it",
                RecordWarning,
            )

    def _finish_sequence(self, sequence: Sequence, tokenizer: Any) -> None:
        path = f"/sequences/{sequence.name}"
        if sequence.num_tokens == 0:
            raise RecordError(f"sequence {sequence.name} is nothing but padding")
        attributes: dict[str, Attribute] = {
            "num_tokens": sequence.num_tokens,
            "prompt_length": sequence.prompt_length,
        }
        self._file.write_attributes(
            path, {**attributes, "source": sequence.source} if sequence.source else attributes
        )
        for layer in sequence.layers:
            reach = self._consistency.reach(layer)
            of_layer = {"sliding_window": reach.window, "attention_chunk": reach.chunk}
            self._file.write_attributes(
                f"{path}/layers/{layer}",
                {name: tokens for name, tokens in of_layer.items() if tokens is not None},
            )
            if layer in self._sinks:
                self._file.write_list(
                    f"{path}/layers/{layer}/sink_logit", self._sinks[layer].numpy()
                )
        if sequence.spans:
            self._file.write_spans(f"{path}/spans", sequence.spans)
        if sequence.ids is not None:
            self._file.write_list(f"{path}/token_ids", np.array(sequence.ids, np.int32))
            if tokenizer is not None:
                self._file.write_texts(f"{path}/token_text", token_texts(tokenizer, sequence.ids))


def _spans_of_one(spans: Iterable[tuple[int, int, str]]) -> tuple[Span, ...]:
    if not isinstance(spans, Iterable) or isinstance(spans, str):
        raise UsageError(
            f"spans: expected for each name a list of (start, end, label), found {spans!r}"
        )
    return checked_spans(spans, None)


def _checked(prompt_length: int | None) -> int | None:
    if prompt_length is not None and prompt_length < 0:
        raise UsageError(f"prompt_length: expected 0 (none) or more tokens, found {prompt_length}")
    return prompt_length
