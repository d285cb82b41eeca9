"""Samples of the synthetic tasks of RULER, at lengths that are asked for."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import UsageError
from .conversation import conversation
from .filling import Count, counter, filled
from .haystack import read_haystack
from .key_value import key_value
from .needles import niah_multikey, niah_multiquery, niah_multivalue, niah_single
from .sample import Setting, Task
from .variable_tracking import variable_tracking
from .word_lists import common_words, frequent_words

TASKS: dict[str, Task] = {
    "niah-single": niah_single,
    "niah-multikey": niah_multikey,
    "niah-multivalue": niah_multivalue,
    "niah-multiquery": niah_multiquery,
    "variable-tracking": variable_tracking,
    "common-words": common_words,
    "frequent-words": frequent_words,
    "key-value": key_value,
}
WITH_DEPTHS = ("niah-single",)
WITH_TURNS = ("niah-multikey", "key-value")
LENGTHS = (1024,)
SAMPLES = 10


def ruler(
    lengths: int | Sequence[int] = LENGTHS,
    tasks: Sequence[str] | None = None,
    *,
    samples: int = SAMPLES,
    seed: int = 0,
    haystack: Sequence[str | Path] | None = None,
    tokenizer: Any = None,
    depths: Sequence[float] | None = None,
    turns: int = 1,
) -> Iterator[dict[str, Any]]:
    """Lines of long contexts with questions whose answers are known, for kvsim.tasks.evaluate.

    Parameters
    ----------
    lengths : int or sequence of int, tokens, default (1024,)
        One or several. A line with its questions and answers has at most so many, and as many as
        whole items of its context allow.
    tasks : sequence of str, optional
        Some of "niah-single", "niah-multikey", "niah-multivalue", "niah-multiquery",
        "variable-tracking", "common-words", "frequent-words" and "key-value"; None: all, or with
        `turns` those that have several.
    samples : int, default 10
        Of each task and length, 1 or more.
    seed : int, default 0
        Of all draws. A sample depends on the seed, its task, length and number alone, and on the
        haystack, the tokenizer, the depths and turns of its task.
    haystack : sequence of str or pathlib.Path, optional
        Texts, or Paths of files, that hide needles; None: prose that comes with the package. Line
        breaks become spaces, and it begins again at its end.
    tokenizer : transformers tokenizer or path, optional
        That of the model, or the model's folder, GGUF file or name; None: words and punctuation
        marks count as tokens, of which a model makes more.
    depths : sequence of float, optional
        Where the needle of niah-single stands, from 0 to 1: each sample at each depth. None: each
        sample has a depth of its own.
    turns : int, default 1
        Questions to one context, of niah-multikey and key-value.

    Yields
    ------
    dict
        As conversation() makes them, with the labels `needle` for what an answer is in and
        `distractor` for needles that nobody asks for. `depth` is that of the needle, where there is
        one that is asked for.

    Raises
    ------
    UsageError
        For a task that there is not, a number out of range, a length that is too short for the
        task, and a haystack that cannot be read.

    References
    ----------
    Tasks and their sizes are those of RULER (arXiv 2404.06654), and key-value retrieval that of
    Lost in the Middle (arXiv 2307.03172); the sentences are this package's own.

    Examples
    --------
    >>> texts = list(kvsim.tasks.ruler([512, 1024], ["niah-single"], tokenizer=model_folder))
    """
    lengths = [lengths] if isinstance(lengths, int) else lengths
    chosen = _chosen(tasks, turns, depths)
    for what, values in (("length", lengths), ("task", chosen), ("depth", depths or ())):
        _check_values(what, values)
    for what, value in (("samples", samples), ("turns", turns), *(("length", n) for n in lengths)):
        if value < 1:
            raise UsageError(f"{what}: expected 1 or more, found {value}")
    for depth in depths or ():
        if not 0 <= depth <= 1:
            raise UsageError(f"depths: expected 0 to 1, found {depth}")
    count, hay = counter(tokenizer), read_haystack(haystack)
    for length in lengths:
        for task in chosen:
            setting = Setting(length, hay, turns if task in WITH_TURNS else 1)
            of_task = depths if depths and task in WITH_DEPTHS else [None]
            for number in range(1, samples + 1):
                for depth in of_task:
                    yield _line(task, replace(setting, depth=depth), seed, number, count)


def _chosen(
    tasks: Sequence[str] | None, turns: int, depths: Sequence[float] | None
) -> Sequence[str]:
    if tasks is None:
        tasks = WITH_TURNS if turns > 1 else [*TASKS]
    for task in tasks:
        if task not in TASKS:
            raise UsageError(f"tasks: expected some of {', '.join(TASKS)}, found {task}")
        if turns > 1 and task not in WITH_TURNS:
            raise UsageError(
                f"turns: expected 1 for {task}, found {turns}; {', '.join(WITH_TURNS)} have several"
            )
    if depths and not set(tasks) & set(WITH_DEPTHS):
        raise UsageError(f"depths: expected {', '.join(WITH_DEPTHS)} among the tasks, found none")
    return tasks


def _check_values(what: str, values: Sequence[Any]) -> None:
    twice = [value for value in values if list(values).count(value) > 1]
    if twice:
        raise UsageError(f"{what}s: expected different ones, found {twice[0]} twice")


def _line(task: str, setting: Setting, seed: int, number: int, count: Count) -> dict[str, Any]:
    draw = random.Random(f"{seed} {task} {setting.length} {number}")
    build = TASKS[task](draw, setting)
    name = f"{task}.{setting.length}.seed-{seed}.sample-{number}"
    name += f".{setting.turns}-turns" if setting.turns > 1 else ""
    name += f".depth-{setting.depth:.15g}" if setting.depth is not None else ""

    def made(items: int) -> dict[str, Any]:
        content = build(items)
        return conversation(
            content.context, content.turns, name=name, task=task, spans=content.spans,
            length=setting.length, depth=content.depth,
        )  # fmt: skip

    place = f"length: {task}"
    return filled(made, lambda line: count(line["text"]), setting.length, place)
