"""Turns the forward passes and attention calls of a model into a trace."""

import operator
import warnings
from collections.abc import Iterable
from collections.abc import Sequence as Several
from typing import Any

import torch

from ..errors import RecordError, RecordWarning, UsageError
from ..model.attention import Call, Result
from ..model.follower import Follower
from ..model.rope import RopeWitness
from ..model.shape import Shape
from ..model.steps import Step
from .also import Reading
from .copies import Copies
from .label import Label, checked_prompt, labels_of
from .on_device import Vectors, is_compared
from .ropes import write_ropes
from .sequence import Sequence, taken
from .stored_type import Attention, Compared, types_of_shared
from .text_writer import TextWriter
from .trace_file import Attribute, TraceFile

MIXED = "mixed"  # the types of a trace whose layers differ


class Recorder(Follower):
    """Records the attention of the model step by step, in memory that does not grow.

    `reading` is how a whole text is read for all that is recorded of it, `texts` writes those that
    have ended.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        file: TraceFile,
        witness: RopeWitness,
        layers: Several[int],
        dtype: str,
        ends: set[int],
        source: str,
        prompt_length: int | None,
        reading: Reading,
        copies: Copies,
        texts: TextWriter,
    ) -> None:
        super().__init__(model, set(layers))
        self._file, self._witness, self._reading = file, witness, reading
        self._copies, self._texts = copies, texts
        self._dtype, self._ends = dtype, ends
        # of sequences whose label has none
        self._source, self._prompt_length = source, checked_prompt(prompt_length)
        self._model_name = type(model).__name__
        self._labels: list[Label] = []
        self._names: set[str] = set()  # of all sequences that have begun
        self._batch: list[Sequence] = []
        self._first: list[int] = []  # the position of each sequence's first new token
        self._positions_known = True

    @property
    def sequences(self) -> Several[Sequence]:
        """Those that are whole: all that was asked for is in the file. Waits until they are."""
        self._texts.wait()
        return self._texts.whole

    def num_query_heads(self, layer: int) -> int:
        return self._shapes[layer].num_query_heads

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
        prompt_length = checked_prompt(prompt_length)
        own = self._prompt_length if prompt_length is None else prompt_length
        self._labels += labels_of(names, source or self._source, own, spans)

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
        self._copies.drain()  # an error is one of this step

    def _begin_sequences(self, step: Step) -> None:
        for _ in range(step.real.shape[0]):
            number = len(self._names)
            unnamed = Label(f"sequence-{number}", self._source, self._prompt_length)
            label = self._labels.pop(0) if self._labels else unnamed
            if label.name in self._names:
                raise UsageError(f"two sequences are named {label.name}")
            self._names.add(label.name)
            spool = self._file.spool
            self._batch.append(
                Sequence(
                    label.name, label.source, spool, label.prompt_length, label.spans, self._copies
                )
            )

    def _attend(self, layer: int, call: Call, step: Step) -> Result:
        """Records one attention call and lets it be computed."""
        result = call.attend()
        output = result[0]
        self._check_shape(layer, call, output)
        self._check_cache(layer, call, step)
        new = {"query": call.query}
        if self._caches.cache_of(layer) == layer:
            new |= {"key": call.key[:, :, -step.new :], "value": call.value[:, :, -step.new :]}
            self._witness.look(layer, call.module, new["key"], step.real_new, self._first)
        self._witness.forget()
        new["output"] = output.transpose(1, 2)
        for index, sequence in enumerate(self._batch):
            vectors = {name: tensor[index] for name, tensor in new.items()}
            self._compare(layer, call, step, sequence, vectors)
            sequence.append(layer, vectors)
            if layer in self._consistency.selecting:
                selected = None if call.selected is None else call.selected[index]
                sequence.select(layer, selected, step.real[index])
        return result

    def _compare(
        self, layer: int, call: Call, step: Step, sequence: Sequence, vectors: Vectors
    ) -> None:
        """Compares a whole text on the device, if its keys are those that are recorded of it."""
        is_whole = step.seen == 0 and "key" in vectors and len(sequence.new_rows) > 0
        if not is_whole or layer in self._consistency.may_select or not is_compared(call.query):
            return
        sequence.errors.look(
            layer, {name: taken(rows, sequence.new_rows) for name, rows in vectors.items()},
            self._dtype, self._shapes[layer], self._consistency.reach(layer),
            call.options.get("s_aux"),
        )  # fmt: skip

    def _end_sequences(self, failed: bool) -> None:
        self._texts.wait()  # one batch is written while another one is read, and no more
        batch, self._batch = self._batch, []
        if failed:
            self._copies.forget()
            self._leave_out(batch)
            batch = []
            self._witness.leave_out_texts()
        ropes = self._witness.end_texts()
        for sequence in batch:
            sequence.ropes = ropes
        with self.paused():
            self._texts.write(batch, self._types_of)

    def _types_of(self, sequence: Sequence) -> dict[int, dict[str, str]]:
        """How the vectors of a text are stored, by layer. Compares its attention for that."""
        sequence.close()
        expected = (self._texts.whole or [sequence])[0].layers
        if sequence.layers != expected:
            raise RecordError(
                f"sequence {sequence.name} has layers {sequence.layers}, an earlier one "
                f"{expected}; does the model skip layers?"
            )
        types: dict[int, dict[str, str]] = {}
        found = sequence.errors.read(sequence.num_tokens)
        for owner in sequence.layers_with_cache:
            together = {
                layer: (
                    sequence.spooled[layer],
                    self._attention_of(layer, sequence, found.get(layer)),
                )
                for layer in (owner, *self._caches.readers_of(owner))
            }
            place = f"sequence {sequence.name}"
            types |= types_of_shared(together, self._dtype, place, self._file.threads)
        return types

    def _attention_of(self, layer: int, sequence: Sequence, compared: Compared | None) -> Attention:
        sinks = self._sinks.get(layer)
        return Attention(
            self._shapes[layer],
            self._consistency.reach(layer),
            None if sinks is None else sinks.numpy(),
            sequence.selected_by(layer),
            compared,
        )

    def _leave_out(self, batch: list[Sequence]) -> None:
        """A trace holds no sequence whose forward pass raised."""
        for sequence in batch:
            self._names.remove(sequence.name)
            reason = "a forward pass on it failed"
            warnings.warn(f"sequence {sequence.name} is left out: {reason}", RecordWarning)
        self._step = None

    def read(self, ids: Iterable[int]) -> None:
        """Lets the model read a whole text alone, in one pass for all that is recorded of it.

        It takes the place of a call of the model, which reads a text once more for what `also`
        asks. Raises UsageError for anything else than the token ids of one text.
        """
        try:
            if getattr(ids, "ndim", 1) != 1:
                raise TypeError(f"an array of {ids.ndim} dimensions")
            numbers = [operator.index(each) for each in ids]
        except TypeError as error:
            raise UsageError(
                "read: expected the token ids of one text, a list of whole numbers, found "
                f"{type(ids).__name__}; take input_ids of what a tokenizer returns, and one row of "
                "a batch"
            ) from error
        seen = self._reading.read(numbers, self._layers, self._intercept)
        self._batch[0].seen = seen
        self.end_texts()

    def end_texts(self) -> None:
        """The texts so far are whole: what comes next is none of theirs.

        A text that another one follows, or the end of the recording, ends anyway. After this call
        it is also kept if an exception comes before. One of a model on a device may be written
        later; if that fails, the end of the next text raises, or a RecordWarning names it.
        """
        self._end_sequences(failed=self._step is not None)

    def end(self) -> None:
        """Ends the recording. Raises RecordError if there is nothing in it."""
        self.end_texts()
        self._texts.settle()
        if not self._shapes and self._texts.whole:
            everything = len(self._layers) == self._text_config.num_hidden_layers
            where = "" if everything else f" in layers {sorted(self._layers)}"
            raise RecordError(f"{self._model_name} has no attention that can be recorded{where}")
        if not self._texts.whole:
            raise RecordError("no attention was recorded; run the model inside the recording")
        if self._labels:
            raise UsageError(f"names: no text came for {self._labels[0].name}")

    def describe(self, header: dict[str, Attribute], tokenizer: Any) -> None:
        """Writes what else a trace says of the sequences that are whole, and of the model."""
        shape = self._shapes[min(self.layers)]
        shared = {name: value for name, value in vars(shape).items() if value is not None}
        stored = MIXED if len(self._texts.key_types) > 1 else next(iter(self._texts.key_types))
        self._file.write_attributes("/", {**header, **shared, "dtype": stored})
        for sequence in self._texts.whole:
            sequence.describe(self._file)
            self._describe_layers(sequence, shape)
            sequence.write_text(self._file, tokenizer)
        are_known = self._witness.rotates and self._positions_known
        unknown = write_ropes(self._file, self._texts.whole) if are_known else self.layers
        if unknown and self._witness.rotates:
            warnings.warn(
                f"the trace does not say how keys of layer {min(unknown)} are rotated: not all "
                "steps do it alike, or not by position in the text; positions=slot cannot be "
                "replayed on it",
                RecordWarning,
            )

    def _describe_layers(self, sequence: Sequence, outer: Shape) -> None:
        path = f"/sequences/{sequence.name}"
        for layer in sequence.layers:
            reach = self._consistency.reach(layer)
            of_layer = {"sliding_window": reach.window, "attention_chunk": reach.chunk}
            of_layer |= {"kv_from": self._caches.owners.get(layer)}
            of_layer |= self._shapes[layer].beyond(outer)
            self._file.write_attributes(
                f"{path}/layers/{layer}",
                {name: value for name, value in of_layer.items() if value is not None},
            )
            if layer in self._sinks:
                self._file.write_list(
                    f"{path}/layers/{layer}/sink_logit", self._sinks[layer].numpy()
                )
