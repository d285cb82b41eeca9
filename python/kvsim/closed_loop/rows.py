"""Rows of the table `closed_loop`: which there are, and new ones."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .. import _engine
from ..errors import UsageError
from ..frames import frame_of

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from .loops import Job, Plan

KEY = ("sequence", "policy", "budget", "mode", "loop", "seed")  # beside model_id


class Rows:
    """The rows of one model and loop in a result file, or in memory."""

    def __init__(
        self, output: str | Path | None, model_id: str, loop: str, seed: int, force: bool = False
    ) -> None:
        self._file = _engine.ClosedLoopFile(None if output is None else os.fspath(output))
        self._where = "the rows" if output is None else os.fspath(output)
        self._model_id, self._loop, self._seed = model_id, loop, seed
        self._asked: set[tuple[object, ...]] = set()
        frame = self._own()
        self._text_ids = dict(zip(frame["sequence"], frame["text_id"]))
        self._codes = {tuple(row[:-1]): row[-1] for row in self._keys(frame, "policy_code")}

    def begin_run(self, command: str, device: str, threads: int) -> None:
        """What is added from now on belongs to one row of the table `run`."""
        self._file.begin_run(command, device, threads)

    def check(self, job: Job) -> None:
        """Raises UsageError if the file has another text of that name, read by the same model."""
        if self._text_ids.get(job.name, job.text_id) != job.text_id:
            raise UsageError(
                f"{self._where}: its sequence {job.name} has other tokens than {job.source}; give "
                "the text another name, or write to another file"
            )

    def ask(self, job: Job, plan: Plan) -> bool:
        """Asks for a row. Returns whether it has to be made: it is missing or of another code."""
        key = (job.name, plan.policy, plan.budget, plan.mode, self._loop, self._seed)
        self._asked.add(key)
        return self._codes.get(key) != plan.policy_code

    def add(self, job: Job, plan: Plan, values: dict[str, object]) -> None:
        """Adds a row, or replaces that of another code."""
        self._file.add([{
            "model_id": self._model_id, "sequence": job.name, "policy": plan.policy,
            "budget": plan.budget, "mode": plan.mode, "loop": self._loop, "seed": self._seed,
            "text_id": job.text_id, "budget_request": plan.budget_request, "label": plan.label,
            "policy_code": plan.policy_code, **values,
        }])  # fmt: skip

    def asked(self) -> pd.DataFrame:
        """All rows that were asked for, ordered by key."""
        frame = self._own()
        chosen = [tuple(row) in self._asked for row in self._keys(frame)]
        attrs = frame.attrs
        frame = frame[chosen].reset_index(drop=True)
        frame.attrs.update(attrs)
        return frame

    def _own(self) -> pd.DataFrame:
        frame = frame_of(*self._file.rows())
        return frame[frame["model_id"] == self._model_id]

    @staticmethod
    def _keys(frame: pd.DataFrame, *more: str) -> list[list[object]]:
        columns = [frame[name].tolist() for name in (*KEY, *more)]
        return [list(row) for row in zip(*columns)]
