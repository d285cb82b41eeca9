"""Answers that are long chains of steps, for policies that evict while a model writes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

from ...errors import UsageError
from ...trace.spans import Span
from .filling import counter, filled
from .words import vocabulary

TOKENS = 500
SAMPLES = 10
FEWEST_STEPS = 2
BEFORE_STEPS = "Steps:\n"  # without it a small model says a result at once
OTHER_NUMBERS = 9  # variables that are numbers, and not asked for

Chain = tuple[str, list[str], str, str]  # task, steps, what leads to the result, the result
Kind = Callable[[random.Random], Callable[[int], Chain]]


def _addition(draw: random.Random) -> Callable[[int], Chain]:
    """Numbers of two digits, added one by one."""
    numbers: list[int] = []

    def build(steps: int) -> Chain:
        numbers.extend(draw.randrange(10, 100) for _ in range(steps - len(numbers)))
        return _sum_of(numbers[:steps])

    return build


def _sum_of(numbers: Sequence[int]) -> Chain:
    total, steps = 0, []
    for number in numbers:
        steps.append(f"{total} + {number} = {total + number}")
        total += number
    return f"Numbers: {', '.join(map(str, numbers))}", steps, "The sum is", str(total)


def _variables(draw: random.Random) -> Callable[[int], Chain]:
    """Variables, each of which has the value of the next one; the last one is a number.

    Some others are numbers, too, so that the result does not follow without the steps.
    """
    seed = draw.getrandbits(64)
    numbers = [str(number) for number in draw.sample(range(100, 1000), OTHER_NUMBERS + 1)]
    words = vocabulary(draw)
    others = dict(zip(islice(words, OTHER_NUMBERS), numbers, strict=False))
    names: list[str] = []

    def build(steps: int) -> Chain:
        names.extend(islice(words, max(steps - len(names), 0)))
        chain = dict(pairwise([*names[:steps], numbers[-1]]))
        order = [*chain, *others]
        random.Random(seed).shuffle(order)
        return _value_of(names[0], chain | others, order)

    return build


def _value_of(name: str, variables: Mapping[str, str], order: Sequence[str]) -> Chain:
    """The variables in this order, and those that lead from one to its value."""
    task = f"Variables: {'; '.join(f'{each} = {variables[each]}' for each in order)}. Find {name}."
    steps, value = [], name
    while value in variables:
        steps.append(f"{value} = {variables[value]}")
        value = variables[value]
    return task, steps, "The value is", value


KINDS: dict[str, Kind] = {"addition": _addition, "variables": _variables}
_EXAMPLES: dict[str, tuple[str, Chain]] = {
    "addition": (
        "Add the numbers one by one, a line each, and then say the sum.",
        _sum_of([17, 80, 36]),
    ),
    "variables": (
        "Begin with the variable to find, and write down which one it is equal to, a line each, "
        "until it is a number. Then say the number.",
        _value_of(
            "road",
            {"road": "hat", "hat": "moon", "moon": "52", "ice": "36"},
            ["moon", "ice", "road", "hat"],
        ),
    ),
}


def chains(
    kinds: Sequence[str] = tuple(KINDS),
    *,
    tokens: int | None = None,
    steps: int | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
    tokenizer: Any = None,
) -> Iterator[dict[str, Any]]:
    """Lines of a short prompt and a long solution, step by step, whose end is the answer.

    Parameters
    ----------
    kinds : sequence of {"addition", "variables"}, default all
        "addition", a running sum of a list of numbers; "variables", the way from a variable to its
        value, each being equal to another one of a list in another order.
    tokens : int, tokens, optional
        Of the solution, at most, and as many as whole steps allow; None: 500, unless `steps` is
        there.
    steps : int, optional
        How many steps there are, 2 or more; in place of `tokens`.
    samples : int, default 10
        Of each kind.
    seed : int, default 0
        Of all draws; a sample depends on the seed, its kind and number alone, and more steps begin
        with the same numbers or variables.
    tokenizer : transformers tokenizer or path, optional
        As for ruler(): None counts words and punctuation marks.

    Yields
    ------
    dict
        As conversation() makes them, of the tasks chain-addition and chain-variables. The prompt
        says what to do, with a solved example, and ends after the task, a `question`. The rest is
        one `turn` of a `step` for each line, and the `answer`. `length` is `tokens`.

    Raises
    ------
    UsageError
        For a kind that there is not, and a number out of range.

    Examples
    --------
    >>> texts = list(kvsim.tasks.chains(["addition"], tokens=1000, tokenizer=model_folder))
    """
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"kinds: expected some of {', '.join(KINDS)}, found {kind}")
        if list(kinds).count(kind) > 1:
            raise UsageError(f"kinds: expected different ones, found {kind} twice")
    if tokens is not None and steps is not None:
        raise UsageError("tokens, steps: expected one of the two, found both; leave one out")
    if samples < 1:
        raise UsageError(f"samples: expected 1 or more, found {samples}")
    if steps is not None and steps < FEWEST_STEPS:
        raise UsageError(f"steps: expected {FEWEST_STEPS} or more, found {steps}")
    most = TOKENS if tokens is None else tokens
    count = counter(tokenizer)

    def size_of(line: dict[str, Any]) -> int:
        return count(line["text"]) - count(line["text"][: line["prompt_length"]])

    for kind in kinds:
        for number in range(1, samples + 1):
            build = KINDS[kind](random.Random(f"{seed} {kind} {number}"))
            size = f"{most}-tokens" if steps is None else f"{steps}-steps"
            name = f"chain-{kind}.{size}.seed-{seed}.sample-{number}"
            if steps is not None:
                yield _line(kind, build(steps), name, None)
                continue
            yield filled(
                lambda more, build=build, kind=kind, name=name: _line(
                    kind, build(FEWEST_STEPS + more), name, most
                ),
                size_of,
                most,
                f"tokens: {kind}",
            )


def _line(kind: str, chain: Chain, name: str, length: int | None) -> dict[str, Any]:
    about, (example, solved, cue, result) = _EXAMPLES[kind]
    text = f"{about}\n\n{example}\n{BEFORE_STEPS}" + "".join(f"{step}\n" for step in solved)
    text += f"{cue} {result}\n\n"
    task, steps, cue, result = chain
    spans = [Span(len(text), len(text) + len(task), "question")]
    text += f"{task}\n{BEFORE_STEPS}"
    prompt_length = len(text)
    for step in steps:
        spans.append(Span(len(text), len(text) + len(step), "step"))
        text += f"{step}\n"
    text += cue
    spans.append(Span(len(text), len(text) + 1 + len(result), "answer"))
    text += f" {result}"
    spans.append(Span(prompt_length, len(text), "turn"))
    return {
        "name": name,
        "text": text,
        "spans": [list(span) for span in spans],
        "prompt_length": prompt_length,
        "task": f"chain-{kind}",
        "length": length,
        "depth": None,
    }
