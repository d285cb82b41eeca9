"""Prompts of k solved examples and a question (H2O section 5.1, Tables 1 and 10)."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError
from .questions import Question

TEMPLATE = "{context}Question: {question}\nAnswer: {answer}"
BETWEEN = "\n\n"
CHOICE = "choice"  # the label of a choice that is not right
NAME_OF_CHOICE = ".choice-"
_FORM = re.compile(r"[^{}]*(?:\{context\}[^{}]*)?\{question\}([^{}]*)\{answer\}")


@dataclass(frozen=True)
class Template:
    r"""How an example is written.

    Parameters
    ----------
    example : str, default TEMPLATE
        A text with {question}, then {answer} at its end, and {context} before both on request. The
        default is kvsim.tasks.TEMPLATE.
    between : str, default two line feeds
        Stands between two examples.

    Raises
    ------
    UsageError
        For another text.

    Examples
    --------
    >>> kvsim.tasks.Template("Q: {question}\nA: {answer}")
    """

    example: str = TEMPLATE
    between: str = BETWEEN

    def __post_init__(self) -> None:
        if not _FORM.fullmatch(self.example):
            raise UsageError(
                "template: expected a text with {question} and then, at its end, {answer}, and on "
                f"request {{context}} before, found {self.example!r}"
            )

    def parts(self, question: Question) -> tuple[str, str, str]:
        """What stands before the context, then up to the question, and up to the answer.

        Parameters
        ----------
        question : Question
            Whose context is put in its place.

        Returns
        -------
        tuple of str
            The three parts.

        Raises
        ------
        UsageError
            For a context that has no place.
        """
        before, _, cue = self.example.removesuffix("{answer}").partition("{question}")
        start, has_context, rest = before.partition("{context}")
        if question.context and not has_context:
            raise UsageError(
                f"template: {question.name} has a context; expected {{context}} in {self.example!r}"
            )
        return start, question.context + rest, cue

    def solved(self, question: Question) -> str:
        """A question with its right answer, as an example has it.

        Parameters
        ----------
        question : Question
            What is asked.

        Returns
        -------
        str
            The text of the example.

        Raises
        ------
        UsageError
            For a context that has no place.
        """
        start, before, cue = self.parts(question)
        return start + before + question.question + cue + question.answer


def few_shot(
    questions: Sequence[Question],
    shots: int,
    *,
    seed: int = 0,
    count: int | None = None,
    examples: Sequence[Question] | None = None,
    choices: bool = False,
    template: Template = Template(),
) -> Iterator[dict[str, Any]]:
    """Texts that ask a question after `shots` solved examples, as `kvsim.evaluate` takes them.

    Parameters
    ----------
    questions : sequence of Question
        Those of read_questions(); each is asked once.
    shots : int
        Solved examples before the question, 0 or more.
    seed : int, default 0
        Of the draw of examples. What a question is asked after depends on the seed, its name and
        `examples` alone, and fewer shots are the last ones of more.
    count : int, optional
        How many of the questions are asked, the first ones, 1 or more; None: all.
    examples : sequence of Question, optional
        To draw from; None: the other questions. The one that is asked is never drawn, nor one of
        the same context and question.
    choices : bool, default False
        A text per choice, whose likelihoods multiple_choice() compares; else one with the right
        answer, which the model has to predict token by token.
    template : Template, default Template()
        How an example is written.

    Yields
    ------
    dict
        With `name`, `text`, `spans` and `prompt_length`, in characters. A name is that of the
        question with `.5-shot`, and with `.choice-1` for a choice. Spans are those of the
        question's context, a `shot` for each example, `question`, and `answer` for the right answer
        or `choice` for another choice. The prompt ends before what leads from the question to the
        answer ("Answer:"), or if that is nothing before the question, so that a step after the
        prompt predicts the answer's first token.

    Raises
    ------
    UsageError
        If there are too few examples, a question has no choices to compare, or its context has no
        place in the template.

    References
    ----------
    H2O, arXiv 2306.14048, section 5.1, Tables 1 and 10.

    Examples
    --------
    >>> texts = list(kvsim.tasks.few_shot(questions, shots=5))
    >>> kvsim.evaluate(model, texts, "full;h2o", ["20%"])
    """
    if shots < 0:
        raise UsageError(f"shots: expected 0 or more, found {shots}")
    if count is not None and count < 1:
        raise UsageError(f"count: expected 1 or more, or None for all, found {count}")
    pool = list(questions if examples is None else examples)
    for question in questions[:count]:
        others = [each for each in pool if not _is_same(each, question)]
        if len(others) < shots:
            raise UsageError(
                f"shots: expected at most {len(others)}, the examples other than "
                f"{question.name}, found {shots}"
            )
        random.Random(f"{seed} {question.name}").shuffle(others)
        drawn = others[:shots][::-1]
        if not choices:
            yield _text(question, drawn, question.answer, "", template)
            continue
        if len(question.choices) < 2:
            raise UsageError(
                f"choices: {question.name} has none to compare; ask for its answer instead"
            )
        for place, choice in enumerate(question.choices, 1):
            yield _text(question, drawn, choice, f"{NAME_OF_CHOICE}{place}", template)


def _is_same(one: Question, other: Question) -> bool:
    return one.name == other.name or (one.context, one.question) == (other.context, other.question)


def _text(
    question: Question, drawn: Sequence[Question], answer: str, suffix: str, template: Template
) -> dict[str, Any]:
    text = ""
    spans: list[tuple[int, int, str]] = []

    def add(addition: str, label: str) -> None:
        nonlocal text
        spans.append((len(text), len(text) + len(addition), label))
        text += addition

    for example in drawn:
        add(template.solved(example), "shot")
        text += template.between
    start, before, cue = template.parts(question)
    text += start
    for first, end, label in question.spans:
        spans.append((len(text) + first, len(text) + end, label))
    text += before
    begun = len(text)
    add(question.question, "question")
    prompt_length = len(text) if cue.strip() else begun
    text += cue
    add(answer, "answer" if answer == question.answer else CHOICE)
    name = f"{question.name}.{len(drawn)}-shot{suffix}"
    found: dict[str, Any] = {"name": name, "text": text, "spans": [list(span) for span in spans]}
    if prompt_length:
        found["prompt_length"] = prompt_length
    return found
