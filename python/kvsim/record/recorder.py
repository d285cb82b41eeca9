"""Turns the forward passes and attention calls of a model into a trace."""

import warnings
from collections.abc import Iterator
from collections.abc import Sequence as Several
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..model.attention import Call, Result
from ..model.consistency import Consistency
from ..model.errors import RecordError, RecordWarning, UsageError
from ..model.steps import Step, read_step
from ..model.tokens import token_texts
from .accuracy import check_accuracy
from .rope import RopeWitness
from .sequence import Sequence
from .shape import Shape, shape_of
from .trace_file import Attribute, TraceFile


@dataclass(frozen=True)
class Label:
    """What the caller says about a sequence before it begins."""

    name: str
    source: str
    prompt_length: int | None  # None: what `generate` reads, else nothing


@dataclass
class Generation:
    """A running call of the model's `generate`."""

    prompt_columns: int  # tokens of its input, padding included
    has_begun: bool = False


class Recorder:
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
        self._file, self._witness = file, witness
        self._layers, self._dtype, self._ends = set(layers), dtype, ends
        # of sequences whose label has none
        self._source, self._prompt_length = source, _checked(prompt_length)
        self._model_name = type(model).__name__
        self._text_config = model.config.get_text_config()
        self._labels: list[Label] = []
        self._done: list[Sequence] = []
        self._batch: list[Sequence] = []
        self._step: Step | None = None  # the forward pass that runs or that failed
        self._generation: Generation | None = None
        self._first: list[int] = []  # the position of each sequence's first new token
        self._num_columns = 0  # tokens so far, padding included
        self._shape: Shape | None = None
        self._consistency = Consistency()
        self._positions_known = True

    @property
    def layers(self) -> set[int]:
        """The layers whose attention was called."""
        return self._consistency.layers

    def label(
        self, names: Several[str], source: str = "", prompt_length: int | None = None
    ) -> None:
        """Names the next sequences. Unnamed ones are sequence-0, sequence-1, ...

        `prompt_length` is the number of tokens of each prompt. Give it if the tokens that follow
        the prompt are given, too, or if you run your own generation loop; else the prompt is the
        input of `generate`. If the sequence then has fewer tokens, that is a UsageError; if it ends
        with its prompt, a RecordWarning, and the trace notes no prompt.
        """
        prompt_length = _checked(prompt_length)
        if isinstance(names, str):
            raise UsageError(f"names: expected a list of names, found the text {names!r}")
        for name in names:
            if not name or "/" in name or name == ".":
                raise UsageError(f"sequence name: expected one without a slash, found {name!r}")
            own = self._prompt_length if prompt_length is None else prompt_length
            self._labels.append(Label(name, source or self._source, own))

    @contextmanager
    def generation(self, prompt_columns: int) -> Iterator[None]:
        """Surrounds a call of `generate` whose input has `prompt_columns` columns."""
        self._generation = Generation(prompt_columns)
        try:
            yield
        finally:
            self._generation = None

    def before_forward(
        self, model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """A hook on forward: reads the tokens of the step that begins."""
        step = read_step(model, args, kwargs)
        if step.seen == 0:
            self._end_batch()
            self._step = step
            self._begin(step)
        elif self._step is not None:
            raise RecordError("the forward pass before this one failed; begin a new text")
        self._step = step
        batch = len(self._batch)
        if step.seen != self._num_columns or step.real.shape[0] != batch:
            raise RecordError(
                f"the cache holds {step.seen} tokens of {step.real.shape[0]} sequences that were "
                "not recorded; begin with an empty cache, and without candidates or beams"
            )
        self._num_columns = step.real.shape[1]
        self._positions_known &= step.positions_known
        self._first = [sequence.num_tokens for sequence in self._batch]
        # A single text ends with its last forward pass. In a batch, a text that has ended is fed
        # padding until the longest one ends.
        ends = self._ends if batch > 1 else set()
        for index, sequence in enumerate(self._batch):
            ids = None if step.ids is None else step.ids[index]
            in_prompt = self._in_prompt(sequence, step)
            sequence.feed(ids, step.real_new[index], in_prompt, ends)

    def after_forward(self, *_: Any) -> None:
        """A hook on forward: the step succeeded."""
        self._step = None
        self._witness.forget()

    def _in_prompt(self, sequence: Sequence, step: Step) -> bool | None:
        # First what `generate` reads: a given continuation is neither generated nor in the prompt.
        if self._generation is not None:
            return step.seen < self._generation.prompt_columns
        known = sequence.known_prompt
        return None if known is None else sequence.num_tokens < known

    def _begin(self, step: Step) -> None:
        if self._generation is not None:
            if self._generation.has_begun:
                raise RecordError("the model repeats its tokens; let it keep them: use_cache=True")
            self._generation.has_begun = True
        for _ in range(step.real.shape[0]):
            number = len(self._done) + len(self._batch)
            unnamed = Label(f"sequence-{number}", self._source, self._prompt_length)
            label = self._labels.pop(0) if self._labels else unnamed
            path = f"sequences/{label.name}"
            if path in self._file.h5:
                raise UsageError(f"two sequences are named {label.name}")
            group = self._file.h5.create_group(path)
            self._batch.append(Sequence(group, label.source, self._dtype, label.prompt_length))
        self._num_columns = 0
        self._consistency.begin()

    def observe(self, call: Call) -> Result:
        """Records one attention call and lets it be computed."""
        result = call.attend()
        self._record(call, result[0])
        return result

    def _record(self, call: Call, output: torch.Tensor) -> None:
        module = call.module
        if type(module.config) is not type(self._text_config):
            return  # another part of the model, such as an image encoder
        layer = getattr(module, "layer_idx", None)
        if layer is None:
            raise RecordError(f"{type(module).__name__} does not say which layer it is")
        if layer not in self._layers:
            return
        step = self._step
        if step is None:
            raise RecordError(
                "a part of the model was called alone; call the recorded model, and without "
                "gradient checkpointing, which calls parts again"
            )
        query, key, value = vectors = call.query, call.key, call.value
        if query.shape[2] != step.new or query.shape[0] != len(self._batch):
            raise RecordError(f"layer {layer} has cross-attention: queries are not the new tokens")
        shape = shape_of(layer, vectors, output, call.options)
        if self._shape is None:
            self._shape = shape
        self._shape.require_same(shape, layer)
        self._consistency.check_mask(layer, module, step, key.shape[2], call.mask, call.options)
        self._consistency.check_past(layer, key, step.new)
        new = {"query": query, "key": key[:, :, -step.new :], "value": value[:, :, -step.new :]}
        self._witness.look(layer, new["key"], step.real_new, self._first)
        new["output"] = output.transpose(1, 2)
        for index, sequence in enumerate(self._batch):
            sequence.append(layer, {name: tensor[index] for name, tensor in new.items()})

    def _end_batch(self) -> None:
        if self._step is not None:
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
                windows = {layer: self._consistency.window(layer) for layer in sequence.layers}
                check_accuracy(
                    sequence.name, sequence.vectors, windows, self._shape, sequence.rounded
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
        self._end_batch()
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
            if (window := self._consistency.window(layer)) is not None:
                self._file.write_attributes(f"{path}/layers/{layer}", {"sliding_window": window})
        if sequence.ids is not None:
            self._file.write_list(f"{path}/token_ids", np.array(sequence.ids, np.int32))
            if tokenizer is not None:
                self._file.write_texts(f"{path}/token_text", token_texts(tokenizer, sequence.ids))


def _checked(prompt_length: int | None) -> int | None:
    if prompt_length is not None and prompt_length < 0:
        raise UsageError(f"prompt_length: expected 0 (none) or more tokens, found {prompt_length}")
    return prompt_length
