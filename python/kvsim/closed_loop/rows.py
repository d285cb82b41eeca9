"""Rows of the table `closed_loop` and of their parts: which there are, and new ones."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .. import _engine
from ..errors import UsageError
from ..results.frames import frame_of
from .steps import ROW_KEY, kind_rows, step_row

if TYPE_CHECKING:
    from pathlib import Path

    from .loops import How, Job, Plan
    from .scoring import Steps
    from .shares import Share

# What a row depends on in addition to its key and the code of the policy.
DEPENDS = ("policy_code", "text_id", "prompt_length", "spans_id")
KEY = ROW_KEY[1:]  # of the rows of one model


class Rows:
    """The rows of one model and loop in a result file, or in memory."""

    def __init__(
        self,
        output: str | Path | None,
        model_id: str,
        loop: str,
        how: How,
        force: bool = False,
        scratch: str | Path | None = None,
        per_step: bool = False,
    ) -> None:
        self._file = _engine.ClosedLoopFile(
            None if output is None else os.fspath(output), os.fspath(scratch or ""), per_step
        )
        self._where = "the rows" if output is None else os.fspath(output)
        self._model_id, self._loop, self._how, self._force = model_id, loop, how, force
        self._per_step = per_step
        self._asked: dict[tuple[object, ...], Plan] = {}
        frame = self._own()
        self._text_ids = dict(zip(frame["sequence"], frame["text_id"]))
        there = self._lists(frame, *DEPENDS)
        self._there = dict(zip(map(tuple, self._lists(frame, *KEY)), there))
        self._lacking = self._without_parts(frame)
        self._made_again: dict[str, int] = {}  # by the table of the part that rows lack

    def begin_run(self, command: str, device: str, threads: int, share: Share) -> None:
        """What is added from now on belongs to one row of the table `run`."""
        self._file.begin_run(command, device, threads, share.shard, share.study)

    def finish_run(self) -> None:
        """Says there that all was done."""
        self._file.finish_run()

    def close(self) -> None:
        """Lets go of the file, whose rows come to their place if it is written elsewhere."""
        self._file.close()

    def check(self, job: Job) -> None:
        """Raises UsageError if the file has another text of that name, read by the same model."""
        if self._text_ids.get(job.name, job.text_id) != job.text_id:
            raise UsageError(
                f"{self._where}: its sequence {job.name} has other tokens than {job.source}; give "
                "the text another name, or write to another file"
            )

    def lacks(self, job: Job, plan: Plan) -> bool:
        """Whether a row has to be made: it is missing or lacks parts, of another code, or measured
        after another prompt or on other spans."""
        key = self._key(job, plan)
        now = [plan.policy_code, job.text_id, self._how.first_step(job), job.spans_id]
        if self._force or self._there.get(key) != now:
            return True
        if key not in self._lacking:
            return False
        part = self._lacking[key]
        self._made_again[part] = self._made_again.get(part, 0) + 1
        return True

    def notes(self) -> list[str]:
        """What to say of rows that are made again for a part that they lack."""
        return [
            f"{count} row{' has' if count == 1 else 's have'} nothing in {part} and "
            f"{'is' if count == 1 else 'are'} made again"
            for part, count in self._made_again.items()
        ]

    def ask(self, job: Job, plan: Plan) -> None:
        """Asks for a row, which is there or will be added."""
        self._asked[self._key(job, plan)] = plan

    def add(self, job: Job, plan: Plan, values: dict[str, object], steps: Steps) -> None:
        """Adds a row with its parts, or replaces that of another code."""
        of_row = {
            "model_id": self._model_id, **dict(zip(KEY, self._key(job, plan))),
            "policy_code": plan.policy_code,
        }  # fmt: skip
        row = {
            "text_id": job.text_id, "budget_request": plan.budget_request, "label": plan.label,
            "prompt_length": self._how.first_step(job), "spans_id": job.spans_id, **values,
        }  # fmt: skip
        kinds = kind_rows(steps, job.spans)
        lists = [step_row(steps, job.spans)] if self._per_step else []
        self._file.add(*([of_row | part for part in parts] for parts in ([row], kinds, lists)))

    def asked(self) -> pd.DataFrame:
        """All rows that were asked for, ordered by key, with labels and budgets as asked for."""
        frame = self._own()
        attrs = frame.attrs
        keys = [tuple(row) for row in self._lists(frame, *KEY)]
        plans = [self._asked[key] for key in keys if key in self._asked]
        asked = np.array([key in self._asked for key in keys], bool)
        frame = frame[asked].reset_index(drop=True)
        frame["budget_request"] = [plan.budget_request for plan in plans]
        frame["label"] = pd.Series([plan.label for plan in plans], dtype=object)
        frame.attrs.update(attrs)
        return frame

    def _key(self, job: Job, plan: Plan) -> tuple[object, ...]:
        return (job.name, plan.policy, plan.budget, plan.mode, self._loop, self._how.seed)

    def _own(self, table: str = "closed_loop") -> pd.DataFrame:
        frame = frame_of(*self._file.rows(table))
        return frame[frame["model_id"] == self._model_id]

    def _without_parts(self, frame: pd.DataFrame) -> dict[tuple[object, ...], str]:
        """The keys of rows that lack a part that is asked for, with its table."""
        lacking = {}
        for table in ["closed_loop_kind", *(["closed_loop_step"] if self._per_step else [])]:
            # Without a next token there are no kinds.
            rows = frame if table == "closed_loop_step" else frame[frame["nll"].notna()]
            there = set(map(tuple, self._lists(self._own(table), *KEY, "policy_code")))
            for *key, code in self._lists(rows, *KEY, "policy_code"):
                if (*key, code) not in there:
                    lacking[tuple(key)] = table
        return lacking

    @staticmethod
    def _lists(frame: pd.DataFrame, *columns: str) -> list[list[object]]:
        lists = [frame[name].tolist() for name in columns]
        return [[None if pd.isna(x) else x for x in row] for row in zip(*lists)]
