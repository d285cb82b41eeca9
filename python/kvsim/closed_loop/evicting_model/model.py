"""A running model whose caches evict: the engine decides, the model attends to what is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...errors import RecordError, UsageError
from ...model.attention import Call, Result
from ...model.cache import returned_cache
from ...model.follower import Follower, Place
from ...model.host import on_host
from ...model.masks import Reach
from ...model.rope import NOT_ROTATED, rotations_of
from ...model.selection import padded, selected_tokens
from ...model.steps import Step
from .dropping import Dropper
from .engine_calls import EngineCalls, Made, Sequence, held_of
from .geometry import Geometry
from .visible import MOST_BYTES, NO_STEP, PADDING, attend_to_kept

if TYPE_CHECKING:
    from ... import _engine


@dataclass(frozen=True)
class Beginning:
    """What is known of a sequence when its first forward pass begins."""

    index: int  # in the batch
    number: int  # of the sequences before it
    prompt_length: int | None  # None: it is neither given nor the input of `generate`


@dataclass(frozen=True)
class Mark:
    """Where the sequences of a batch were after some forward pass."""

    place: Place  # of the model
    calls: list[Made]  # of the engine
    num_tokens: list[int]  # of each sequence
    columns: np.ndarray


class EvictingModel(Follower):
    """Evicts in a model that runs.

    Before an attention call is computed, the engine replays the caches of its layer with the new
    tokens' queries, keys and values. Then the model attends to what was in the cache at each step.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        geometry: Geometry,
        make_caches: Callable[[Beginning], Any],
        *,
        protocol: _engine.Protocol,
        prompt_length: int | None = None,
        end_tokens: set[int] | None = None,
        texts_of: Callable[[list[int]], list[str]] | None = None,
        drop: bool = False,
        most_bytes: int = MOST_BYTES,
        can_go_back: bool = False,
    ) -> None:
        super().__init__(model, set(geometry.shapes))
        self._model = model
        self.geometry, self._make_caches = geometry, make_caches
        self._protocol, self._prompt_length = protocol, prompt_length
        self._ends = end_tokens or set()
        self._texts_of = texts_of
        self._dropper = Dropper() if drop else None
        self._most_bytes = most_bytes
        self._engine = EngineCalls(keeps=can_go_back)
        self.num_begun = 0  # sequences
        self._columns = np.empty((0, 0), np.int32)  # the position of each column, or PADDING
        self._new_steps = torch.empty(0, 0, dtype=torch.int32)  # of the new columns, or NO_STEP

    @property
    def batch(self) -> list[Sequence]:
        """The last sequences that began."""
        return self._engine.batch

    @property
    def dropped_layers(self) -> set[int]:
        """The layers of which the model's cache holds no row but those of kept tokens."""
        return self._dropper.exact if self._dropper else set()

    def finish(self) -> None:
        """Raises UsageError if the last sequences ended within their prompts."""
        self._end_sequences(failed=self._step is not None)

    def mark(self) -> Mark:
        """Where the sequences are now. A model that drops rows cannot go back."""
        tokens = [sequence.num_tokens for sequence in self.batch]
        return Mark(self._place(), self._engine.made, tokens, self._columns)

    def go_back(self, mark: Mark) -> None:
        """Brings new caches to where the sequences were; the model's own cache is the caller's."""
        begun = self.num_begun - len(self.batch)
        batch = []
        for index, sequence in enumerate(self.batch):
            begin = Beginning(index, begun + index, sequence.prompt_length)
            batch.append(Sequence(self._make_caches(begin), sequence.prompt_length))
            batch[-1].num_tokens = mark.num_tokens[index]
        self._columns = mark.columns
        self._engine.repeat(batch, mark.calls)
        self._return_to(mark.place)

    def _end_sequences(self, failed: bool) -> None:
        if failed:
            return  # the next text begins anew
        for sequence in self.batch:
            if sequence.prompt_length is not None and sequence.prompt_length > sequence.num_tokens:
                raise UsageError(
                    f"prompt_length {sequence.prompt_length}: the text before had "
                    f"{sequence.num_tokens} tokens; expected no more"
                )

    def _begin_sequences(self, step: Step) -> None:
        batch = []
        for index in range(step.real.shape[0]):
            prompt = self._prompt_of(step.real[index])
            begin = Beginning(index, self.num_begun + index, prompt)
            batch.append(Sequence(self._make_caches(begin), prompt))
        self._engine.begin(batch)
        self.num_begun += len(batch)
        self._columns = np.empty((len(batch), 0), np.int32)
        if self._dropper:
            self._dropper.begin()

    def _prompt_of(self, real: torch.Tensor) -> int | None:
        """The length of a sequence's prompt, from which of the first tokens are no padding."""
        if self._prompt_length is not None or self._generation is None:
            return self._prompt_length
        padding = len(real) - int(real.sum())
        if padding == len(real):
            raise RecordError("a text begins with a piece of padding alone; use larger pieces")
        return self._generation.prompt_columns - padding

    def _feed(self, step: Step) -> None:
        if self._dropper:
            self._dropper.require(step.cache)
        ends = self._ends if len(self.batch) > 1 else set()
        new = np.full((len(self.batch), step.new), PADDING, np.int32)
        for index, sequence in enumerate(self.batch):
            ids = None if step.ids is None else step.ids[index]
            in_prompt = self._in_prompt(step, sequence.num_tokens, sequence.prompt_length)
            sequence.first = sequence.num_tokens
            sequence.feed(ids, step.real_new[index], in_prompt, ends)
            self._require_single_steps(sequence)
            if self._texts_of is not None and ids is not None:
                self._engine.add_text(index, self._texts_of(ids[sequence.new_rows].tolist()))
            new[index, sequence.new_rows.numpy()] = np.arange(sequence.first, sequence.num_tokens)
        self._columns = np.concatenate([self._columns, new], axis=1)
        self._new_steps = torch.from_numpy(np.where(new == PADDING, NO_STEP, new).astype(np.int32))

    def _require_single_steps(self, sequence: Sequence) -> None:
        """Raises UsageError for several steps at once where each needs all layers of the last."""
        caches, end = sequence.caches, sequence.num_tokens
        is_prompt = end <= self._in_full(sequence)
        if caches.takes_single_steps and end - sequence.first > 1 and not is_prompt:
            of_all = caches.scope == "model"
            why = "decides over all layers" if of_all else "sees layers that share a cache"
            raise UsageError(
                f"{caches.policy} {why} at each step: feed the model one token "
                'at a time, or in mode="prefill" one at a time after the prompt'
            )

    def _attend(self, layer: int, call: Call, step: Step) -> Result:
        cache = self._caches.cache_of(layer)
        dropped = self._dropper is not None and self._dropper.has_dropped(cache)
        if not dropped:
            self._check_cache(layer, call, step)
            reach = self.geometry.reaches[layer]
            if not self._consistency.allows(layer, reach):
                raise RecordError(f"layer {layer} has {reach}, which its masks do not have")
        self._require_rotation()
        if cache != layer:
            self._engine.add_queries(layer, *self._vectors(layer, call, ("query",)))
            output, weights = self._attend_to_kept(cache, call, [*range(len(self.batch))], dropped)
            self._check_shape(layer, call, output)
            return output, weights
        vectors = self._vectors(layer, call)
        plain = [index for index, each in enumerate(self.batch) if each.caches.is_plain]
        others = [index for index, each in enumerate(self.batch) if not each.caches.is_plain]
        if plain:
            self._advance(layer, call, vectors, plain, False)
        output, weights = self._attend_to_kept(layer, call, plain, dropped)
        if others:
            computed = torch.tensor(self._advance(layer, call, vectors, others, True))
            weights, output = None, output.clone()
            for index, rows in zip(others, computed):
                new = self._new_after_prompt(self.batch[index])
                output[index, new] = rows[new].to(output.device, output.dtype)
        self._check_shape(layer, call, output)
        return output, weights

    def _require_rotation(self) -> None:
        """Raises RecordError where caches rotate keys otherwise than the model by now does."""
        if len(self._called) > 1 or not any(each.caches.rotates_to_slots for each in self.batch):
            return
        rotations = [*rotations_of(self._model), NOT_ROTATED]
        if not all(rope in rotations for rope in self.geometry.ropes.values()):
            raise RecordError(
                f"with {self._columns.shape[1]} tokens the model rotates keys by other frequencies "
                "than with few, as LongRoPE and dynamic NTK do; positions=slot cannot follow that"
            )

    def _new_after_prompt(self, sequence: Sequence) -> torch.Tensor:
        """The rows of a sequence's new tokens that follow its prompt, which attends in full."""
        return sequence.new_rows[max(0, self._in_full(sequence) - sequence.first) :]

    def _in_full(self, sequence: Sequence) -> int:
        """How many tokens of a sequence attend in full."""
        return self._protocol.first_measured(sequence.prompt_length or 0)

    def _advance(
        self,
        layer: int,
        call: Call,
        vectors: list[np.ndarray],
        members: list[int],
        want_outputs: bool,
    ) -> np.ndarray | None:
        """Replays the new tokens of some members of the batch; their outputs, if wanted."""
        selected = None
        if call.selected is not None:
            selected = [self._selected(call, index, self.batch[index]) for index in members]
        return self._engine.advance(layer, vectors, members, want_outputs, selected)

    def _selected(self, call: Call, index: int, sequence: Sequence) -> np.ndarray:
        """What the new tokens of a member of the batch select, int32 [tokens, K], -1 behind."""
        real = torch.from_numpy(self._columns[index] != PADDING)
        return padded(selected_tokens(call.selected[index], real, sequence.new_rows))

    def _vectors(
        self, layer: int, call: Call, names: tuple[str, ...] = ("query", "key", "value")
    ) -> list[np.ndarray]:
        """Some of the new tokens' queries, keys and values, float32 [batch, heads, new, dim]."""
        new = call.query.shape[2]
        vectors = []
        of_new = (getattr(call, name)[:, :, -new:].detach().float() for name in names)
        for name, rows in zip(names, on_host(*of_new), strict=True):
            if not bool(torch.isfinite(rows).all()):  # perhaps in padding alone
                self._require_finite(f"layer {layer}, {name}", rows)
            vectors.append(rows.contiguous().numpy())
        return vectors

    def _require_finite(self, place: str, rows: torch.Tensor) -> None:
        for index, sequence in enumerate(self.batch):
            if not bool(torch.isfinite(rows[index][:, sequence.new_rows]).all()):
                raise RecordError(
                    f"{place}, member {index} of the batch: the model computed a number that is "
                    "not finite"
                )

    def _attend_to_kept(self, layer: int, call: Call, members: list[int], dropped: bool) -> Result:
        """Attention to what the caches of `members` held, of the others to everything."""
        positions = self._positions(layer, call, dropped)
        shape = (len(self.batch), self.geometry.shapes[layer].num_kv_heads, positions.shape[2])
        evicted_after = np.full(shape, NO_STEP, np.int32)
        has_evicted = False
        for index in members:
            sequence = self.batch[index]
            if not len(sequence.new_rows):
                continue
            left = sequence.caches.evicted_after(layer)
            has_evicted |= bool((left < sequence.num_tokens - 1).any())
            at = np.maximum(positions[index], 0)
            evicted_after[index] = np.take_along_axis(left, np.broadcast_to(at, shape[1:]), 1)
        if not has_evicted and not dropped:
            return call.attend()
        device = call.query.device
        return attend_to_kept(
            call,
            torch.from_numpy(positions).to(device),
            torch.from_numpy(evicted_after).to(device),
            self._new_steps,
            use_own_mask=not dropped,
            most_bytes=self._most_bytes,
        )

    def _positions(self, layer: int, call: Call, dropped: bool) -> np.ndarray:
        """The positions of the keys of a call, int32 [batch, KV heads or 1, keys]."""
        if dropped:
            return self._dropper.positions(layer, self._columns[:, -call.query.shape[2] :])
        return self._columns[:, None, -call.key.shape[2] :]

    def _end_step(self, step: Step, output: Any) -> None:
        if missing := set(self.geometry.shapes) - self._called:
            raise RecordError(f"layer {min(missing)} was not called; does the model skip layers?")
        if any(
            sequence.first < self._in_full(sequence) or sequence.caches.takes_single_steps
            for sequence in self.batch
        ):
            self._engine.end_forward()
        cache = step.cache if step.cache is not None else returned_cache(output)
        if self._dropper is None or cache is None:
            return
        if not all(sequence.caches.is_plain for sequence in self.batch):
            return
        for layer in self.geometry.layers:
            if self.geometry.reaches[layer] != Reach() or layer in self._consistency.may_select:
                continue  # the model's own mask goes by the rows of its cache
            if self._dropper.has_dropped(layer):
                new = self._columns[:, -step.new :]
                positions = self._dropper.positions(layer, new)
            else:
                positions = self._columns[:, None]
            left = [sequence.caches.evicted_after(layer) for sequence in self.batch]
            held = [[held_of(head) for head in member] for member in left]
            self._dropper.drop(cache, layer, positions, held)
