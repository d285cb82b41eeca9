"""A context and questions about it, laid out as one line that kvsim.evaluate takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ...errors import UsageError
from ...trace.names import NAME_FORM, is_name
from ...trace.spans import Span, checked_spans

BETWEEN = "\n\n"  # a context, or an answer, and the next question
CUE = "\nAnswer:"


class Turn(NamedTuple):
    """A question with its answer, or with several values that answer it together.

    The model reads the question and the cue before it answers.

    Attributes
    ----------
    question : str
        What is asked.
    answer : str or sequence of str
        The answer, or its values.
    cue : str
        Leads from the question to the answer; by default a line feed and "Answer:".
    """

    question: str
    answer: str | Sequence[str]
    cue: str = CUE


def conversation(
    context: str,
    turns: Iterable[Turn | tuple[str, str | Sequence[str]]],
    *,
    name: str,
    task: str | None = None,
    spans: Iterable[tuple[int, int, str]] = (),
    length: int | None = None,
    depth: float | None = None,
) -> dict[str, Any]:
    """A line of a context and what is asked about it, for kvsim.tasks.evaluate.

    Parameters
    ----------
    context : str
        What is read, and may be compressed, before the questions; not empty.
    turns : iterable of (str, str), (str, sequence of str) or Turn
        One or more of (question, answer), or of Turn with a cue of its own. An answer is a text, or
        a list of values, which are written with commas between.
    name : str
        Of the line, a text that can name a sequence.
    task : str, optional
        What kind of question it is; scores are means over a task.
    spans : iterable of (int, int, str), optional
        Labelled characters of the context, [first, end, label] each, such as needles.
    length : int, tokens, optional
        As it was asked for.
    depth : float, optional
        Where the needle is in the context, from 0 to 1.

    Returns
    -------
    dict
        With `name`, `text`, `spans`, `prompt_length` (the context with the empty line after it),
        `task`, `length` and `depth`. In addition to `spans` there is a `turn` for each question
        with its answer, and in it a `question`, and an `answer` for each value with the space
        before it.

    Raises
    ------
    UsageError
        For what is empty or out of range, and for a name that a trace cannot have.

    Examples
    --------
    >>> kvsim.tasks.conversation(report, [("Who paid?", "Ann"), ("When?", "in May")], name="paid")
    """
    if not is_name(name):
        raise UsageError(f"name: expected {NAME_FORM}, found {name!r}")
    if not context.strip():
        raise UsageError(f"{name}: context: expected a text, found {context!r}")
    if length is not None and length < 1:
        raise UsageError(f"{name}: length: expected 1 or more tokens, found {length}")
    if depth is not None and not 0 <= depth <= 1:
        raise UsageError(f"{name}: depth: expected 0 to 1, found {depth}")
    asked = [Turn(*turn) for turn in turns]
    if not asked:
        raise UsageError(f"{name}: turns: expected a question and its answer, found none")
    found = list(checked_spans(spans, len(context), "characters"))
    text = context + BETWEEN
    prompt_length = len(text)
    for number, turn in enumerate(asked, 1):
        _check(turn, f"{name}: turn {number}")
        before = BETWEEN if number > 1 else ""
        addition, inside = _laid_out(before, turn)
        found += [Span(len(text) + a, len(text) + b, label) for a, b, label in inside]
        text += addition
    return {
        "name": name,
        "text": text,
        "spans": [list(span) for span in found],
        "prompt_length": prompt_length,
        "task": task,
        "length": length,
        "depth": depth,
    }


def _check(turn: Turn, place: str) -> None:
    if not turn.question.strip():
        raise UsageError(f"{place}: question: expected a text, found {turn.question!r}")
    values = _values(turn)
    if not values or not all(value.strip() for value in values):
        raise UsageError(f"{place}: answer: expected a text or several, found {turn.answer!r}")


def _values(turn: Turn) -> list[str]:
    return [turn.answer] if isinstance(turn.answer, str) else list(turn.answer)


def _laid_out(before: str, turn: Turn) -> tuple[str, list[Span]]:
    """The text of a turn, and its spans."""
    text = before + turn.question + turn.cue
    spans = [Span(len(before), len(before) + len(turn.question), "question")]
    for place, value in enumerate(_values(turn)):
        text += "," if place else ""
        spans.append(Span(len(text), len(text) + 1 + len(value), "answer"))
        text += f" {value}"
    return text, [Span(0, len(text), "turn"), *spans]
