"""Rows of the table `task_answer`: which there are, and new ones."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ... import _engine
from ...errors import UsageError
from ...results.frames import frame_of

if TYPE_CHECKING:
    from pathlib import Path

    from ...closed_loop.loops import Plan
    from .asking import Generating
    from .dialogue import Dialogue

TABLE = "task_answer"
# In the rows of one model.
KEY = ("sequence", "turn", "policy", "budget", "mode", "question", "most_tokens", "seed")
# What a row depends on in addition: what the text says of itself, the policy's code, what stops.
OF_TEXT = ("text_id", "spans_id", "task", "length", "length_request", "depth")
DEPENDS = ("policy_code", *OF_TEXT, "stop")


class AnswerRows:
    """The rows of one model in a result file, or in memory."""

    def __init__(
        self,
        output: str | Path | None,
        model_id: str,
        model: str,
        question: str,
        seed: int,
        generating: Generating,
        force: bool,
    ) -> None:
        path = None if output is None else os.fspath(output)
        self._file = _engine.ClosedLoopFile(path, answers=True)
        self._where = "the rows" if path is None else path
        self._of_model = {"model_id": model_id, "model": model}
        self._of_call = {"question": question, "seed": seed}
        self._generating, self._force = generating, force
        self._device = ""
        self._asked: dict[tuple[object, ...], Plan] = {}
        frame = self._own()
        self._text_ids = dict(zip(zip(frame["sequence"], frame["question"]), frame["text_id"]))
        there = zip(_lists(frame, *KEY), _lists(frame, *DEPENDS))
        self._there = {tuple(key): values for key, values in there}

    def begin_run(self, command: str, device: str, threads: int) -> None:
        """What is added from now on belongs to one row of the table `run`."""
        self._file.begin_run(command, device, threads)
        self._device = device

    def finish_run(self) -> None:
        """Says there that all was done."""
        self._file.finish_run()

    def close(self) -> None:
        """Lets go of the file."""
        self._file.close()

    def check(self, dialogue: Dialogue) -> None:
        """Raises UsageError if the file has another text of that name, read by the same model."""
        job = dialogue.job
        there = self._text_ids.get((job.name, self._of_call["question"]), job.text_id)
        if there != job.text_id:
            raise UsageError(
                f"{self._where}: its sequence {job.name} has other tokens than {job.source}; give "
                "the text another name, or write to another file"
            )

    def lacks(self, dialogue: Dialogue, plan: Plan) -> bool:
        """Whether a turn has no row, or one of another text, code or way to generate."""
        if self._force:
            return True
        of_text = [_of_text(dialogue)[name] for name in OF_TEXT]
        for number in range(len(dialogue.turns)):
            stop = None
            if self._generating.most_tokens:
                stops = self._generating.stops_of(dialogue.references[number])
                stop = json.dumps(stops, ensure_ascii=False)
            now = [plan.policy_code, *of_text, stop]
            if self._there.get(self._key(dialogue, number, plan)) != now:
                return True
        return False

    def ask(self, dialogue: Dialogue, plan: Plan) -> None:
        """Asks for the rows of all turns, which are there or will be added."""
        for number in range(len(dialogue.turns)):
            self._asked[self._key(dialogue, number, plan)] = plan

    def add(self, dialogue: Dialogue, plan: Plan, turns: list[dict[str, object]]) -> None:
        """Adds the rows of all turns of a text, or replaces them."""
        rows = []
        for number, values in enumerate(turns):
            key = dict(zip(KEY, self._key(dialogue, number, plan)))
            rows.append(
                self._of_model | key | _of_text(dialogue) | values | {
                    "budget_request": plan.budget_request,
                    "label": plan.label,
                    "in_view": int(dialogue.has_question_in_view and number == 0),
                    "device": self._device,
                    "kvsim_version": _engine.version(),
                    "policy_code": plan.policy_code,
                }
            )  # fmt: skip
        self._file.add_answers(rows)

    def asked(self) -> pd.DataFrame:
        """All rows that were asked for, ordered by key, with labels and budgets as asked for."""
        frame = self._own()
        keys = [tuple(key) for key in _lists(frame, *KEY)]
        frame = frame[np.array([key in self._asked for key in keys], bool)].reset_index(drop=True)
        plans = [self._asked[key] for key in keys if key in self._asked]
        frame["budget_request"] = [plan.budget_request for plan in plans]
        frame["label"] = pd.Series([plan.label for plan in plans], dtype=object)
        return frame

    def _key(self, dialogue: Dialogue, number: int, plan: Plan) -> tuple[object, ...]:
        question, seed = self._of_call["question"], self._of_call["seed"]
        of_plan = (plan.policy, plan.budget, plan.mode)
        most = self._generating.most_tokens
        return (dialogue.job.name, number + 1, *of_plan, question, most, seed)

    def _own(self) -> pd.DataFrame:
        frame = frame_of(*self._file.rows(TABLE))
        return frame[frame["model_id"] == self._of_model["model_id"]]


def _of_text(dialogue: Dialogue) -> dict[str, object]:
    return {
        "text_id": dialogue.job.text_id,
        "spans_id": dialogue.job.spans_id,
        "task": dialogue.task,
        "length": dialogue.prompt,
        "length_request": dialogue.length_request,
        "depth": dialogue.depth,
    }


def _lists(frame: pd.DataFrame, *columns: str) -> list[list[object]]:
    lists = [frame[name].tolist() for name in columns]
    return [[None if pd.isna(x) else x for x in row] for row in zip(*lists)]
