"""kvsim.tasks.evaluate: what a model with a compressed cache answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ...closed_loop.asked import Asked, prepare
from ...closed_loop.loops import How
from ...closed_loop.work import most_bytes
from ...errors import UsageError
from ...model.decoder import model_name
from ...model.model_id import model_id
from ...verbs.options import listed, protocol_from
from ...verbs.progress import Tracker, Watch, reporter
from .asking import Generating, ask
from .dialogue import QUESTIONS, Dialogue, dialogue_of, lines_of
from .rows import AnswerRows

if TYPE_CHECKING:
    import pandas as pd

FULL = "full"
ROW = "row"


def evaluate(
    model: Any,
    texts: Iterable[Mapping[str, Any]],
    policies: str | type | Sequence[str | type],
    budgets: str | float | Sequence[str | float],
    *,
    question: str = "unseen",
    generate: int = 0,
    stop: Sequence[str] | None = None,
    tokenizer: Any = None,
    eviction_interval: int | str = 1,
    page: int = 1,
    page_score: str = "mean",
    seed: int = 0,
    allocate: str = "uniform",
    output: str | Path | None = None,
    progress: Any = None,
    force: bool = False,
) -> pd.DataFrame:
    """Compresses the cache of a context once, and asks every question of it.

    Parameters
    ----------
    model : transformers.PreTrainedModel or path
        As for kvsim.evaluate.
    texts : iterable of dict
        Of kvsim.tasks.ruler, kvsim.tasks.chains or kvsim.tasks.conversation: dicts of `text` and
        `spans` in characters. The context ends where the first span `turn` begins. In a turn the
        spans `answer` are the values of the answer, `question` is what is asked; what stands before
        the first `answer` or `step` is read, all after it is to be answered.
    policies : str, class, or sequence of these
        As for kvsim.sweep, without oracles.
    budgets : str, int, float, or sequence of these
        As for kvsim.sweep. A share is of what is compressed.
    question : {"unseen", "after", "before", "turns"}, default "unseen"
        When the first question is seen. "unseen": after the context was compressed. "after": it is
        compressed with the context before it. "before": it precedes the context, is compressed with
        it, and is asked again. In all three every question is asked of the same compressed cache,
        each alone. "turns": as "unseen", and the cache goes on: each question follows the earlier
        ones with their right answers.
    generate : int, tokens, default 0
        How many tokens the model may write; 0: it writes none, and the right answer's likelihood
        alone is measured.
    stop : sequence of str, optional
        Texts that end what is written; None: the end of a line, where the right answer has no more
        than one. The model's end tokens end it in any case.
    tokenizer : transformers tokenizer, optional
        Of the texts; None: the model's, from where it was loaded.
    eviction_interval : int or "never", default 1
        See `kvsim.Options`.
    page : int, tokens, default 1
        See `kvsim.Options`.
    page_score : {"mean", "max", "min"}, default "mean"
        See `kvsim.Options`.
    seed : int, default 0
        See `kvsim.Options`.
    allocate : str, default "uniform"
        See `kvsim.Options`.
    output : path, optional
        A result file (SQLite), to whose table `task_answer` rows are added as they are finished.
        Rows that it holds of the same text, code and way to generate are not made again.
    progress : bool or callable, optional
        As for kvsim.sweep, in rows of texts, policies and budgets.
    force : bool, default False
        Makes also the rows that `output` holds.

    Returns
    -------
    pandas.DataFrame
        The columns of the table `task_answer` (sim/results/columns.md), a row per text, turn,
        policy and budget, ordered by key. kvsim.tasks.scores sums it up.

    Raises
    ------
    UsageError
        For what contradicts itself; else as kvsim.evaluate.
    DataError
        For texts that are no tasks; else as kvsim.evaluate.
    RecordError, KvsimError, KeyboardInterrupt
        As kvsim.evaluate.

    Warns
    -----
    KvsimWarning
        As kvsim.evaluate.

    Notes
    -----
    The policies decide while the model runs, fed with its own attention (the adaptive loop, mode
    prefill): the context attends in full, is cut to the budget, and every later token may evict
    another one. The full cache answers, too, as policy `full`.

    Examples
    --------
    >>> texts = kvsim.tasks.ruler([1024], ["niah-single"], tokenizer=tokenizer)
    >>> rows = kvsim.tasks.evaluate(model, texts, ["h2o", "snapkv"], ["20%"], generate=32)
    >>> kvsim.tasks.scores(rows)
    """
    arguments = dict(locals())
    protocol = protocol_from(arguments | {"mode": "prefill"})
    arguments = {
        name: value
        for name, value in arguments.items()
        if name not in ("eviction_interval", "page", "page_score", "seed", "allocate")
    }
    return evaluate_as(None, how=How(protocol, seed, allocate), **arguments)


def evaluate_as(
    command: str | None,
    model: Any,
    texts: Iterable[Mapping[str, Any]],
    policies: str | type | Sequence[str | type],
    budgets: str | float | Sequence[str | float],
    *,
    question: str,
    generate: int,
    stop: Sequence[str] | None,
    tokenizer: Any,
    how: How,
    output: str | Path | None,
    progress: Any,
    force: bool,
    check: Callable[[], object] = lambda: None,
    watch: Watch | None = None,
) -> pd.DataFrame:
    """`evaluate` with the command that the table `run` names; None: the call in words.

    `check` is called when a row was added, and may raise to end. `watch` gets what a Tracker shows,
    in place of `progress`.
    """
    if question not in QUESTIONS:
        raise UsageError(f"question: expected {', '.join(QUESTIONS)}, found {question!r}")
    generating = _generating(generate, stop)
    lines = lines_of(texts, question)
    asked = prepare(
        model, [_text_of(line) for line in lines], _with_full(policies), budgets, "adaptive", how,
        tokenizer=tokenizer, names=None, prompt_length=None, trace=None,
    )  # fmt: skip
    dialogues = [
        dialogue_of(job, line, question) for job, line in zip(asked.jobs, lines, strict=True)
    ]
    digest, name = model_id(asked.model), model_name(asked.model)
    rows = AnswerRows(output, digest, name, question, how.seed, generating, force)
    with closing(rows):
        for dialogue in dialogues:
            rows.check(dialogue)
        words = command or _in_words(asked, name, question, generating)
        rows.begin_run(words, asked.model.device.type, torch.get_num_threads())
        with reporter(progress, "rows") as report:
            shown = watch or (lambda done, total, *_: report and report(done, total))
            _make(asked, dialogues, rows, generating, question == "turns", Tracker(shown), check)
        rows.finish_run()
        return rows.asked()


def _make(
    asked: Asked,
    dialogues: Sequence[Dialogue],
    rows: AnswerRows,
    generating: Generating,
    goes_on: bool,
    tracker: Tracker,
    check: Callable[[], object],
) -> None:
    """Makes the missing rows, text by text. The full cache answers once for all budgets."""
    plans = {
        dialogue.job.name: asked.plans(dialogue.job, is_recorded=False) for dialogue in dialogues
    }
    todo = {
        dialogue.job.name: [plan for plan in plans[dialogue.job.name] if rows.lacks(dialogue, plan)]
        for dialogue in dialogues
    }
    total = sum(map(len, plans.values()))
    tracker.count(total - sum(map(len, todo.values())), total)
    for dialogue in dialogues:
        tracker.expect(ROW, len(dialogue.job.ids) * len(todo[dialogue.job.name]))
    for number, dialogue in enumerate(dialogues, 1):
        for plan in plans[dialogue.job.name]:
            rows.ask(dialogue, plan)
        missing = todo[dialogue.job.name]
        if not missing:
            continue
        full = [plan for plan in missing if plan.policy == FULL]
        tracker.begin(f"text {number} of {len(dialogues)}")
        made = ask(
            asked.model, asked.tokenizer, dialogue,
            full[:1] + [plan for plan in missing if plan.policy != FULL], asked.how, generating,
            goes_on, most_bytes(asked.model.device),
        )  # fmt: skip
        for plan, turns in made:
            same = full if plan.policy == FULL else [plan]
            for each in same:
                rows.add(dialogue, each, turns)
            check()
            tracker.advance(ROW, len(dialogue.job.ids) * len(same), len(same))


def _generating(generate: object, stop: Sequence[str] | None) -> Generating:
    if isinstance(generate, bool) or not hasattr(generate, "__index__") or int(generate) < 0:
        raise UsageError(f"generate: expected 0 or more tokens, found {generate!r}")
    if isinstance(stop, str):
        raise UsageError(f"stop: expected a list of texts, found the text {stop!r}")
    if stop is not None and not all(isinstance(each, str) and each for each in stop):
        raise UsageError(f"stop: expected texts that are not empty, found {list(stop)!r}")
    return Generating(int(generate), None if stop is None else tuple(stop))


def _with_full(policies: object) -> list[str]:
    """The full cache first, which says what the model can do at all."""
    from ... import _engine

    specs = listed(policies)
    there = {str(flags["text"]) for flags in _engine.specs(specs, "uniform")} if any(specs) else ()
    return specs if FULL in there or not any(specs) else [FULL, *specs]


def _text_of(line: Mapping[str, Any]) -> dict[str, Any]:
    """What kvsim.evaluate reads of a line, whose prompt here is what is compressed."""
    return {name: value for name, value in line.items() if name != "prompt_length"}


def _in_words(asked: Asked, name: str, question: str, generating: Generating) -> str:
    words = {"policies": asked.specs, "budgets": asked.amounts, "question": question}
    words |= {"generate": generating.most_tokens, "stop": generating.stop} | asked.how.options()
    arguments = ", ".join(f"{key}={value!r}" for key, value in words.items())
    names = [job.name for job in asked.jobs]
    return f"kvsim.tasks.evaluate({name!r}, {names}, {arguments})"
