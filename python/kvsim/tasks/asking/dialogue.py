"""A text as a context with turns, each a question with its answer, in tokens."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...errors import DataError, UsageError
from ...trace.spans import Span

if TYPE_CHECKING:
    from ...closed_loop.loops import Job

QUESTIONS = ("unseen", "after", "before", "turns")  # when the question is asked, see evaluate()
BETWEEN = "\n\n"  # a question that comes before its context, and the context


@dataclass(frozen=True)
class Turn:
    """A question and its answer. Places are tokens of the text, half open."""

    asked: tuple[int, int]  # what the model reads before it answers
    end: int  # of what answers it
    values: tuple[tuple[int, int], ...]  # of the answer, and the steps that lead to it


@dataclass(frozen=True)
class Dialogue:
    """A context and what is asked of it."""

    job: Job
    prompt: int  # the first tokens, which are compressed
    turns: tuple[Turn, ...]
    answers: tuple[tuple[str, ...], ...]  # of each turn the text of its values
    references: tuple[str, ...]  # of each turn all of the text that answers it
    has_question_in_view: bool  # the first question is compressed with the context
    task: str | None
    length_request: int | None
    depth: float | None


def lines_of(texts: Iterable[Mapping[str, Any]], question: str) -> list[dict[str, Any]]:
    """The lines as they are read, where the first question comes before its context.

    Raises DataError for a line without turns or answers, and for fields that no row could hold.
    """
    if isinstance(texts, (str, Mapping)):
        raise UsageError(f"texts: expected a list of dicts, found a {type(texts).__name__}")
    found = []
    for number, text in enumerate(texts, 1):
        if not isinstance(text, Mapping) or not isinstance(text.get("text"), str):
            raise DataError(f"text {number}: expected a dict with text and spans, found {text!r}")
        line = dict(text)
        name = line.get("name", f"text {number}")
        _check_fields(line, name)
        turns = _checked_turns(line, name)
        if question in ("after", "before"):
            asked = next((p for p in _parts(line, "question", name) if p[0] >= turns[0][0]), None)
            if asked is None or asked[1] > turns[0][1]:
                raise DataError(
                    f"{name}: expected a span labelled question in its first turn, found none"
                )
            if question == "before":
                before = line["text"][slice(*asked)].strip() + BETWEEN
                line["text"] = before + line["text"]
                line["spans"] = [[a + len(before), b + len(before), c] for a, b, c in line["spans"]]
        found.append(line)
    return found


def dialogue_of(job: Job, line: Mapping[str, Any], question: str) -> Dialogue:
    """The places of a line's turns in its tokens.

    With "after" the first question ends the prompt. The model answers after it has read at least
    one token from the compressed cache, the last of the context where nothing leads to the answer.
    With "turns" what stands between two turns is read with the second.

    Raises DataError for a turn that begins with its answer, and is not the only one.
    """
    of_turns = sorted(span for span in job.spans if span.label == "turn")
    in_first = _inside(job.spans, "question", of_turns[0])
    prompt = of_turns[0].start
    if question == "after":
        prompt = max([prompt, *(end for _, end in in_first)])
    turns: list[Turn] = []
    for number, span in enumerate(of_turns, 1):
        values = sorted([*_inside(job.spans, "answer", span), *_inside(job.spans, "step", span)])
        # A token may hold the end of a turn and the start of the next.
        before = turns[-1].end if turns else 0
        start = before if turns and question == "turns" else max(span.start, before)
        if values[0][0] <= start and len(of_turns) > 1:
            raise DataError(
                f"{job.name}: turn {number}: expected a question before its answer, found none"
            )
        turns.append(Turn((start, values[0][0]), span.end, tuple(values)))
    asked_until = turns[0].asked[1]
    prompt = min(prompt, asked_until - 1)
    if prompt < 1:
        raise DataError(f"{job.name}: expected a token of context before its answer, found none")
    turns[0] = replace(turns[0], asked=(prompt, asked_until))
    questions = [span for span in job.spans if span.label == "question"]
    places = _parts(line, "turn", job.name)
    depth = line.get("depth")
    return Dialogue(
        job=replace(job, prompt_length=prompt),
        prompt=prompt,
        turns=tuple(turns),
        answers=tuple(tuple(_values(line, place)) for place in places),
        references=tuple(_reference(line, place) for place in places),
        has_question_in_view=question in ("after", "before")
        or (not in_first and any(span.end <= prompt for span in questions)),
        task=line.get("task"),
        length_request=line.get("length"),
        depth=None if depth is None else float(depth),
    )


def _check_fields(line: Mapping[str, Any], name: object) -> None:
    task, length, depth = (line.get(field) for field in ("task", "length", "depth"))
    if task is not None and (not isinstance(task, str) or not task):
        raise DataError(f"{name}: task: expected a text, found {task!r}")
    if length is not None and (type(length) is not int or length < 1):
        raise DataError(f"{name}: length: expected 1 or more tokens, found {length!r}")
    is_number = isinstance(depth, (int, float)) and not isinstance(depth, bool)
    if depth is not None and not (is_number and 0 <= depth <= 1):
        raise DataError(f"{name}: depth: expected 0 to 1, found {depth!r}")


def _checked_turns(line: Mapping[str, Any], name: object) -> list[tuple[int, int]]:
    turns = _parts(line, "turn", name)
    if not turns:
        raise DataError(
            f"{name}: expected spans labelled turn, each a question with its answer, found none; "
            "kvsim.tasks.ruler and kvsim.tasks.conversation make such texts"
        )
    if turns[0][0] == 0:
        raise DataError(f"{name}: expected a context before its first turn, found none")
    for place, (first, end) in enumerate(turns, 1):
        if not any(first <= a and b <= end for a, b in _parts(line, "answer", name)):
            raise DataError(
                f"{name}: turn {place}: expected a span labelled answer in it, found none"
            )
        if place > 1 and first < turns[place - 2][1]:
            raise DataError(
                f"{name}: turn {place}: expected it to begin after the one before, which ends at "
                f"{turns[place - 2][1]}, found {first}"
            )
    return turns


def _parts(line: Mapping[str, Any], label: str, name: object) -> list[tuple[int, int]]:
    try:
        found = [(first, end) for first, end, own in line.get("spans", ()) if own == label]
        return sorted((operator.index(first), operator.index(end)) for first, end in found)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{name}: spans: expected [first character, end, label] each, found {line['spans']!r}"
        ) from error


def _inside(spans: Sequence[Span], label: str, turn: Span) -> list[tuple[int, int]]:
    inside = (span for span in spans if turn.start <= span.start and span.end <= turn.end)
    return sorted((span.start, span.end) for span in inside if span.label == label)


def _values(line: Mapping[str, Any], turn: tuple[int, int]) -> list[str]:
    return [
        line["text"][first:end].strip()
        for first, end in _parts(line, "answer", "")
        if turn[0] <= first and end <= turn[1]
    ]


def _reference(line: Mapping[str, Any], turn: tuple[int, int]) -> str:
    """From the first step or value of a turn to its end."""
    parts = [*_parts(line, "answer", ""), *_parts(line, "step", "")]
    return line["text"][min(first for first, _ in parts if turn[0] <= first) : turn[1]]
