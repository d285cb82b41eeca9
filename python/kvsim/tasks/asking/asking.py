"""Asks a running model, many configurations as one batch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from ...closed_loop.evicting_model import EvictingModel
from ...closed_loop.evicting_model.geometry import PROBED_TOKENS, Geometry, geometry_of
from ...closed_loop.loops import How, Plan
from ...errors import RecordError
from ...model.decoder import end_tokens
from ...model.rope import rotates_by_length
from ...model.tokens import token_texts
from .dialogue import Dialogue, Turn
from .reader import Bookmark, Reader
from .scores import contains, exact, f1

LARGEST_BATCH = 64
LARGEST_BATCH_OF_CPU = 4  # more gain nothing while the context is read
KEPT_BYTES = 1 << 32  # of what is kept to go back, in the memory of the CPU
ROWS_AT_ONCE = 64  # of logits, in float64


@dataclass(frozen=True)
class Generating:
    """How answers are written: greedily, until one of the model's end tokens."""

    most_tokens: int  # 0: none are
    stop: tuple[str, ...] | None = None  # texts that end an answer; None: see stops_of()

    def stops_of(self, reference: str) -> tuple[str, ...]:
        """By default a line ends an answer, where the right one has no more than one."""
        if self.stop is not None:
            return self.stop
        return () if "\n" in reference.strip() else ("\n",)


def ask(
    model: torch.nn.Module,
    tokenizer: Any,
    dialogue: Dialogue,
    plans: Sequence[Plan],
    how: How,
    generating: Generating,
    goes_on: bool,
    most_bytes: int,
) -> Iterator[tuple[Plan, list[dict[str, object]]]]:
    """Each plan with the columns of each turn, as a batch of them is finished.

    The context is read and compressed once for all turns. With `goes_on` a turn and its right
    answer stay in the cache for the next one. The logits of a batch take `most_bytes`, and what is
    kept to go back KEPT_BYTES; a batch of one may take more.

    Raises what kvsim.evicting raises.
    """
    length = len(dialogue.job.ids) if rotates_by_length(model) else PROBED_TOKENS
    geometry = geometry_of(model, [plan.policy for plan in plans], length)
    of_policies: dict[str, list[Plan]] = {}
    for plan in plans:
        # What decides over all layers takes single steps: a batch has one kind.
        singly = _caches(geometry, dialogue, plan, how).takes_single_steps
        of_policies.setdefault(str(singly), []).append(plan)
    size = _batch_size(model, geometry, dialogue, most_bytes)
    for group in of_policies.values():
        for first in range(0, len(group), size):
            batch = group[first : first + size]
            asked = _Asked(model, tokenizer, dialogue, batch, how, geometry, most_bytes)
            try:
                turns = asked.turns(generating, goes_on)
            except RecordError as error:
                members = ", ".join(f"{plan.policy} at {plan.budget} tokens" for plan in batch)
                name = dialogue.job.name
                raise RecordError(f"text {name}: {error}; the batch: {members}") from error
            for index, plan in enumerate(batch):
                yield plan, [rows[index] for rows in turns]


class _Asked:
    """A batch of configurations that reads a context and answers its questions."""

    def __init__(
        self,
        model: torch.nn.Module,
        tokenizer: Any,
        dialogue: Dialogue,
        plans: list[Plan],
        how: How,
        geometry: Geometry,
        most_bytes: int,
    ) -> None:
        self._model, self._tokenizer, self._dialogue = model, tokenizer, dialogue
        self._size = len(plans)
        self._ids = torch.from_numpy(dialogue.job.ids).long()
        self._evicting = EvictingModel(
            model,
            geometry,
            lambda begin: _caches(geometry, dialogue, plans[begin.index], how),
            protocol=how.protocol,
            prompt_length=dialogue.prompt,
            texts_of=partial(token_texts, tokenizer),
            most_bytes=most_bytes // 2,
            can_go_back=True,
        )
        self._reader = Reader(model, self._evicting, self._size)

    def turns(self, generating: Generating, goes_on: bool) -> list[list[dict[str, object]]]:
        """Of each turn the columns of each member."""
        found = []
        with self._evicting.following(self._model), torch.inference_mode():
            self._reader.read(self._ids[: self._dialogue.prompt])
            start = self._reader.mark()
            for number, turn in enumerate(self._dialogue.turns):
                if number and not goes_on:
                    self._reader.go_back(start)
                here = start if not goes_on or not number else self._reader.mark()
                written = self._written(number, turn, here, generating)
                scored = self._scored(turn)
                found.append([one | other for one, other in zip(scored, written, strict=True)])
            self._evicting.finish()
        return found

    def _singly(self) -> bool:
        return any(each.caches.takes_single_steps for each in self._evicting.batch)

    def _scored(self, turn: Turn) -> list[dict[str, object]]:
        """How likely the answer is, after the question and what precedes each token of it."""
        first, answered = turn.asked
        # Its last token is read, too: with more turns it stays in the cache.
        logits = self._reader.read(self._ids[first : turn.end], self._singly())
        of_next, right = _compared(
            logits[:, answered - 1 - first : -1], self._ids[answered : turn.end]
        )
        places = [slice(a - answered, b - answered) for a, b in turn.values]
        in_answer = torch.cat([of_next[:, place] for place in places], 1)
        return [
            {
                "answers": len(places),
                "answers_right": sum(bool(right[index, place].all()) for place in places),
                "nll": -float(in_answer[index].mean()),
                "peak_tokens": sequence.caches.peak_tokens,
                "cache_bytes": sequence.caches.cache_bytes,
            }
            for index, sequence in enumerate(self._evicting.batch)
        ]

    def _written(
        self, number: int, turn: Turn, here: Bookmark, generating: Generating
    ) -> list[dict[str, object]]:
        """What the members write after the question, and what that is worth; then goes back."""
        if not generating.most_tokens:
            return [{} for _ in range(self._size)]
        reference = self._dialogue.references[number]
        stops = generating.stops_of(reference)
        logits = self._reader.read(self._ids[slice(*turn.asked)], self._singly())
        texts, counts = self._generated(logits[:, -1], generating.most_tokens, stops)
        self._reader.go_back(here)
        return [
            {
                "stop": json.dumps(stops, ensure_ascii=False),
                "generated": text,
                "generated_tokens": count,
                "exact": exact(text, reference),
                "contains": contains(text, self._dialogue.answers[number]),
                "f1": f1(text, reference),
            }
            for text, count in zip(texts, counts, strict=True)
        ]

    def _generated(
        self, logits: torch.Tensor, most: int, stops: tuple[str, ...]
    ) -> tuple[list[str], list[int]]:
        """The text of each member without what stopped it, and its tokens up to there."""
        ends = set(end_tokens(self._model))
        written: list[list[int]] = [[] for _ in range(self._size)]
        texts = [""] * self._size
        running = set(range(self._size))
        while running:
            tokens = logits.argmax(-1).tolist()
            for index in sorted(running):
                if tokens[index] in ends:
                    running.discard(index)
                    continue
                written[index].append(tokens[index])
                text = self._tokenizer.decode(written[index], skip_special_tokens=True)
                cuts = [at for stop in stops if (at := text.find(stop)) >= 0]
                texts[index] = text[: min(cuts)] if cuts else text
                if cuts or len(written[index]) == most:
                    running.discard(index)
            if running:
                # A member that has ended reads on, and nobody looks at it any more.
                logits = self._reader.read(torch.tensor(tokens)[:, None])[:, -1]
        return texts, [len(each) for each in written]


def _compared(logits: torch.Tensor, following: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of logits [batch, steps, vocabulary] the log-probability of the tokens that follow, float64,
    and whether each is the most likely one, both [batch, steps]."""
    of_next, right = [], []
    for rows, tokens in zip(logits.split(ROWS_AT_ONCE, 1), following.split(ROWS_AT_ONCE)):
        log_p = torch.log_softmax(rows.to("cpu", torch.float64), -1)
        of_next.append(log_p.gather(2, tokens[None, :, None].expand(len(rows), -1, 1))[..., 0])
        right.append(log_p.argmax(-1) == tokens)
    return torch.cat(of_next, 1), torch.cat(right, 1)


def _caches(geometry: Geometry, dialogue: Dialogue, plan: Plan, how: How) -> Any:
    from ... import _engine

    options = {**how.options(), "prompt_length": dialogue.prompt, "sequence": dialogue.job.name}
    return _engine.RunningCaches(plan.policy, str(plan.budget), geometry.for_engine(), options)


def _batch_size(
    model: torch.nn.Module, geometry: Geometry, dialogue: Dialogue, most_bytes: int
) -> int:
    """How many configurations at once keep to the limits of memory."""
    vectors = sum(
        shape.num_query_heads * shape.head_dim
        + shape.num_kv_heads * (shape.head_dim + shape.value_dim)
        for shape in geometry.shapes.values()
    )
    tokens = 4 * len(dialogue.job.ids)
    of_logits = most_bytes // (tokens * model.config.get_text_config().vocab_size)
    fitting = max(1, min(of_logits, KEPT_BYTES // (tokens * vectors)))
    return min(fitting, LARGEST_BATCH_OF_CPU if model.device.type == "cpu" else LARGEST_BATCH)
