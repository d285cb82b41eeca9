"""A text as a context with turns, each a question with its answer, in tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...errors import DataError
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
    values: tuple[tuple[int, int], ...]  # of the answer


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

    Raises DataError for a line without turns or answers.
    """
    found = []
    for number, text in enumerate(texts, 1):
        line = dict(text)
        name = line.get("name", f"line {number}")
        turns = _parts(line, "turn", name)
        if not turns:
            raise DataError(
                f"{name}: expected spans labelled turn, each a question with its answer, found "
                "none; kvsim.tasks.ruler and kvsim.tasks.conversation make such texts"
            )
        if turns[0][0] == 0:
            raise DataError(f"{name}: expected a context before its first turn, found none")
        for place, (first, end) in enumerate(turns, 1):
            if not any(first <= a and b <= end for a, b in _parts(line, "answer", name)):
                raise DataError(
                    f"{name}: turn {place}: expected a span labelled answer in it, found none"
                )
        if question == "before":
            asked = next((p for p in _parts(line, "question", name) if p[0] >= turns[0][0]), None)
            if asked is None:
                raise DataError(
                    f"{name}: expected a span labelled question in its first turn, found none"
                )
            before = line["text"][slice(*asked)].strip() + BETWEEN
            line["text"] = before + line["text"]
            line["spans"] = [[a + len(before), b + len(before), c] for a, b, c in line["spans"]]
            line["prompt_length"] = line.get("prompt_length", turns[0][0]) + len(before)
        found.append(line)
    return found


def dialogue_of(job: Job, line: Mapping[str, Any], question: str) -> Dialogue:
    """The places of a line's turns in its tokens.

    With "after" the first question ends the prompt. The model answers after it has read at least
    one token from the compressed cache, the last of the context where nothing leads to the answer.

    Raises DataError for a turn that begins with its answer, and is not the only one.
    """
    of_turns = sorted(span for span in job.spans if span.label == "turn")
    prompt = of_turns[0].start
    if question == "after":
        prompt = max([prompt, *(end for _, end in _inside(job.spans, "question", of_turns[0]))])
    turns = []
    for number, span in enumerate(of_turns, 1):
        values = tuple(_inside(job.spans, "answer", span))
        begins = min(first for first, _ in (*values, *_inside(job.spans, "step", span)))
        if begins == span.start and len(of_turns) > 1:
            raise DataError(
                f"{job.name}: turn {number}: expected a question before its answer, found none"
            )
        turns.append(Turn((span.start, begins), span.end, values))
    asked_until = turns[0].asked[1]
    prompt = min(prompt, asked_until - 1)
    if prompt < 1:
        raise DataError(f"{job.name}: expected a token of context before its answer, found none")
    turns[0] = replace(turns[0], asked=(prompt, asked_until))
    places = _parts(line, "turn", job.name)
    depth = line.get("depth")
    return Dialogue(
        job=replace(job, prompt_length=prompt),
        prompt=prompt,
        turns=tuple(turns),
        answers=tuple(tuple(_values(line, place)) for place in places),
        references=tuple(_reference(line, place) for place in places),
        has_question_in_view=question in ("after", "before"),
        task=line.get("task"),
        length_request=line.get("length"),
        depth=None if depth is None else float(depth),
    )


def _parts(line: Mapping[str, Any], label: str, name: object) -> list[tuple[int, int]]:
    try:
        return sorted((first, end) for first, end, own in line.get("spans", ()) if own == label)
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
