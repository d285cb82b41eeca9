"""The calls of the engine for a batch of sequences, which can be made again on other caches."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...model.member import Member

Made = tuple[str, list[int], tuple[Any, ...]]  # a call: its name, the members, other arguments


class Sequence(Member):
    """A sequence and its caches, those of all layers and KV heads."""

    def __init__(self, caches: Any, prompt_length: int | None) -> None:
        super().__init__()
        self.caches = caches
        self.prompt_length = prompt_length
        self.first = 0  # the position of its first new token


class EngineCalls:
    """Calls the engine with the caches of a batch.

    With `keeps`, the arguments of all calls are kept, so that new caches can be brought to where
    these were: policies have states of their own, which nothing else could copy. That takes the
    memory of the queries, keys and values of the whole text.
    """

    def __init__(self, keeps: bool = False) -> None:
        self.batch: list[Sequence] = []
        self._keeps = keeps
        self._made: list[Made] = []

    def begin(self, batch: list[Sequence]) -> None:
        """New sequences begin."""
        self.batch, self._made = batch, []

    @property
    def made(self) -> list[Made]:
        """The calls so far, if they are kept."""
        return list(self._made)

    def repeat(self, batch: list[Sequence], made: list[Made]) -> None:
        """Makes these calls, and no others, for sequences that take the place of the batch."""
        self.batch, self._made = batch, list(made)
        for call in self._made:
            self._call(*call)

    def add_text(self, member: int, texts: list[str]) -> None:
        """The text of a member's new tokens."""
        self._make("add_text", [member], texts)

    def advance(
        self,
        layer: int,
        vectors: list[np.ndarray],
        members: list[int],
        want_outputs: bool,
        selected: list[np.ndarray] | None,
    ) -> np.ndarray | None:
        """Replays the new tokens of some members in a layer; their outputs, if wanted.

        `vectors` are queries, keys and values of the batch.
        """
        some = vectors if len(members) == len(self.batch) else [x[members] for x in vectors]
        rest = (want_outputs, selected)
        return self._make("advance", members, layer, *some, *self._new_rows(members), *rest)

    def add_queries(self, layer: int, query: np.ndarray) -> None:
        """Lets the policies see what a layer that reads another one's cache attends with."""
        members = [*range(len(self.batch))]
        self._make("add_queries", members, layer, query, *self._new_rows(members))

    def end_forward(self) -> None:
        """The forward pass has ended in all layers."""
        self._make("end_forward", [*range(len(self.batch))])

    def _new_rows(self, members: list[int]) -> tuple[list[int], list[int]]:
        """Of each member the first row of its new tokens, and how many there are."""
        rows = [self.batch[index].new_rows for index in members]
        return [int(each[0]) if len(each) else 0 for each in rows], [len(each) for each in rows]

    def _make(self, name: str, members: list[int], *arguments: Any) -> Any:
        if self._keeps:
            self._made.append((name, members, arguments))
        return self._call(name, members, arguments)

    def _call(self, name: str, members: list[int], arguments: tuple[Any, ...]) -> Any:
        from ... import _engine

        caches = [self.batch[index].caches for index in members]
        if name == "add_text":
            return caches[0].add_text(*arguments)
        return getattr(_engine, name)(caches, *arguments)


def held_of(evicted_after: np.ndarray) -> np.ndarray:
    """The tokens that are left, int32, of the steps after which tokens left, n for never."""
    return (evicted_after == len(evicted_after)).nonzero()[0].astype(np.int32)
