"""Data sets of questions: the project's own format, and those that such sets come in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DataError, UsageError
from ..trace.names import NAME_FORM, is_name
from ..trace.spans import Span, checked_spans

FORM = (
    '{"question": "...", "choices": ["...", ...], "answer": the text or the place of a choice}, '
    "with context, spans and name on request"
)
LABELS = ("shot", "question", "answer", "choice")  # of the spans that few_shot() adds
_OWN = {"question", "choices", "answer", "context", "spans", "name"}


@dataclass(frozen=True)
class Question:
    """A question with its right answer.

    Parameters
    ----------
    name : str
        Of the question; texts are named after it.
    question : str
        What is asked.
    answer : str
        The right answer.
    choices : tuple of str, default ()
        With the answer among them; none: it is an open question.
    context : str, default ""
        What is read before the question.
    spans : tuple of Span, default ()
        Labelled characters of the context, as needles.

    Raises
    ------
    DataError
        For a choice that occurs twice, and for a span with a label of few_shot().
    """

    name: str
    question: str
    answer: str
    choices: tuple[str, ...] = ()  # with the answer among them; none: it is an open question
    context: str = ""  # what is read before the question
    spans: tuple[Span, ...] = ()  # of characters of the context, as needles

    def __post_init__(self) -> None:
        twice = [each for each in self.choices if self.choices.count(each) > 1]
        if twice:
            raise DataError(
                f"{self.name}: choices: expected different ones, found {twice[0]!r} "
                f"{self.choices.count(twice[0])} times; leave the others out"
            )
        taken = [label for _, _, label in self.spans if label in LABELS]
        if taken:
            raise DataError(
                f"{self.name}: spans: expected labels other than {', '.join(LABELS)}, which "
                f"prompts add, found {taken[0]!r}; rename it"
            )


def read_questions(path: str | Path) -> list[Question]:
    """Reads a question per line of JSON, or a JSON array of them.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    list of Question
        In the order of the file.

    Raises
    ------
    UsageError
        For a file that cannot be read.
    DataError
        For what is no such question.

    Notes
    -----
    A question is an object `{"question": "...", "choices": [...], "answer": ...}`. `answer` is the
    text of the answer, or with choices the place of the right one, from 0 on. Without `choices` it
    is an open question. `context` is a text to read before the question, `spans` label characters
    of it, [first, end, label] each, and `name` names the question; by default it is the file's with
    a number.

    Two formats of OpenBookQA and ARC are read, too: `{"question": {"stem": ..., "choices":
    [{"text": ..., "label": "A"}, ...]}, "answerKey": "A"}`, and `{"instruction": "... question: ...
    Answer1: ... Answer2: ...", "answer": "answer2"}`.

    Examples
    --------
    >>> questions = kvsim.tasks.read_questions("questions.jsonl")
    """
    path = Path(path)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot read it: {error}") from error
    found: dict[str, Question] = {}
    for place, fields in _objects(path, text):
        question = _question(fields, f"{path.stem}-{len(found) + 1}", place)
        if question.name in found:
            raise DataError(f"{place}: an earlier question is named {question.name}; rename one")
        found[question.name] = question
    if not found:
        raise DataError(f"{path}: expected questions, found none")
    return list(found.values())


def _objects(path: Path, text: str) -> list[tuple[str, Any]]:
    """The objects of the file, each with what to call its place in an error."""
    try:
        if text.lstrip().startswith("["):
            return [(f"{path}: entry {i}", each) for i, each in enumerate(json.loads(text), 1)]
        # Not splitlines: a JSON string may contain U+2028 and other line separators.
        lines = [(i, line) for i, line in enumerate(text.split("\n"), 1) if line.strip()]
        return [(f"{path}: line {i}", json.loads(line)) for i, line in lines]
    except ValueError as error:
        raise DataError(f"{path}: expected JSON, a question per line: {error}") from error


def _question(fields: Any, name: str, place: str) -> Question:
    if not isinstance(fields, Mapping):
        raise DataError(f"{place}: expected {FORM}")
    if "instruction" in fields:
        fields = _of_instruction(fields, place)
    elif "answerKey" in fields:
        fields = _of_answer_key(fields, place)
    if unknown := set(fields) - _OWN:
        raise DataError(f"{place}: expected {FORM}, found {min(map(str, unknown))!r}")
    own = fields.get("name", name)
    if not is_name(own):
        raise DataError(f"{place}: name: expected {NAME_FORM}, found {own!r}")
    context = fields.get("context", "")
    if not isinstance(context, str):
        raise DataError(f"{place}: context: expected a text, found {context!r}")
    choices = fields.get("choices", [])
    if not isinstance(choices, list) or not all(_is_text(each) for each in choices):
        raise DataError(f"{place}: choices: expected a list of texts, found {choices!r}")
    if not _is_text(fields.get("question")):
        raise DataError(f"{place}: question: expected a text, found {fields.get('question')!r}")
    answer = _answer(fields.get("answer"), choices, place)
    try:
        spans = checked_spans(fields.get("spans", []), len(context))
        return Question(own, fields["question"], answer, tuple(choices), context, tuple(spans))
    except (UsageError, DataError) as error:
        raise DataError(f"{place}: {error}") from error


def _answer(answer: Any, choices: list[str], place: str) -> str:
    if choices and isinstance(answer, int) and not isinstance(answer, bool):
        if 0 <= answer < len(choices):
            return choices[answer]
        raise DataError(f"{place}: answer: expected 0 to {len(choices) - 1}, found {answer}")
    if not _is_text(answer):
        raise DataError(
            f"{place}: answer: expected a text or the place of a choice, found {answer!r}"
        )
    if choices and answer not in choices:
        raise DataError(f"{place}: answer: expected one of the choices, found {answer!r}")
    return answer


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _of_answer_key(fields: Mapping[str, Any], place: str) -> dict[str, Any]:
    """OpenBookQA and ARC, as their authors publish them."""
    try:
        choices = fields["question"]["choices"]
        labels = [choice["label"] for choice in choices]
        return {
            "question": fields["question"]["stem"],
            "choices": [choice["text"] for choice in choices],
            "answer": labels.index(fields["answerKey"]),
            "name": str(fields["id"]),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f'{place}: expected {{"id": ..., "question": {{"stem": ..., "choices": [{{"text": ..., '
            f'"label": ...}}]}}, "answerKey": a label}}: {error!r}'
        ) from error


def _of_instruction(fields: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Commonsense sets for instruction tuning: question and choices stand in one text."""
    text = str(fields["instruction"])
    parts = re.split(r"(?:^|\s)(?:Answer|Option|Choice|Solution)(\d+):\s*", text)
    right = re.fullmatch(r"\D*(\d+)", str(fields.get("answer")))
    if len(parts) < 5 or right is None or right[1] not in parts[1::2]:
        raise DataError(
            f'{place}: expected {{"instruction": "...: the question Answer1: ... Answer2: ...", '
            f'"answer": "answer2"}}, found the answer {fields.get("answer")!r}'
        )
    asked = re.sub(r"^[^:]*question:\s*", "", parts[0]).strip()
    choices = [part.strip() for part in parts[2::2]]
    choices[-1] = re.sub(r"\s*Answer format:.*$", "", choices[-1], flags=re.DOTALL)
    return {"question": asked, "choices": choices, "answer": parts[1::2].index(right[1])}
