"""kvsim.evaluate: what policies cost the predictions of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..errors import UsageError
from ..model.model_id import model_id
from ..trace import Trace
from ..verbs.options import check_scratch, protocol_from, warn_of
from ..verbs.progress import Tracker, Watch, reporter
from .asked import Asked, prepare
from .loops import How, Job, Plan
from .replayed import KeptSets
from .rows import Rows
from .shares import share_of
from .work import RECORD, REPLAY, ROW, Work, guessed_seconds, replayed_rows

if TYPE_CHECKING:
    import pandas as pd

    from .. import _engine

LOOPS = ("imposed", "adaptive")


def evaluate(
    model: Any,
    texts: object,
    policies: str | type | Sequence[str | type] = (),
    budgets: str | float | Sequence[str | float] = (),
    *,
    select: str | type | Sequence[str | type] | None = None,
    tokenizer: Any = None,
    names: Sequence[str] | None = None,
    loop: str = "imposed",
    mode: str = "stream",
    eviction_interval: int | str = 1,
    page: int = 1,
    page_score: str = "mean",
    prompt_length: int | None = None,
    trace: str | Path | Trace | None = None,
    also: str | Sequence[str] | None = None,
    gradient_samples: int = 1,
    seed: int = 0,
    allocate: str = "uniform",
    output: str | Path | None = None,
    progress: Any = None,
    force: bool = False,
    shard: str = "1/1",
    scratch: str | Path | None = None,
    per_step: bool = False,
) -> pd.DataFrame:
    """Evicts inside the model and compares its predictions of each text with the full cache's.

    Parameters
    ----------
    model : transformers.PreTrainedModel or path
        A causal language model in evaluation mode, or the folder, GGUF file or name of one, which
        is loaded in float32 on the CPU.
    texts : str, sequence of int, dict, path, or list of these
        A string, token ids, a dict as in a line of JSON ({"text": ..., "spans": [[first character,
        end, label], ...], "name": ..., "prompt_length": characters}), a Path of a file of such
        lines (.jsonl) or of one text, or a list of these. Spans labelled `answer` are counted as
        right where each of their tokens is the most likely one.
    policies : str, class, or sequence of these, optional
        As for kvsim.sweep.
    budgets : str, int, float, or sequence of these, optional
        As for kvsim.sweep. Bytes are of numbers as the trace has them.
    select : str, class, or sequence of these, optional
        Selectors as for kvsim.fetch, with or without policies: "quest:k=64,page=16". The model
        keeps every token, and each step attends to what they choose in the text's trace. For
        loop="imposed"; not for "magicpig", which estimates from samples.
    tokenizer : transformers tokenizer, optional
        Of the texts; None: the model's, from where it was loaded.
    names : sequence of str, optional
        Of the texts, as sequences; by default that of the line of JSON or of the file, else `text-`
        and 12 digits of the SHA-256 of its token ids.
    loop : {"imposed", "adaptive"}, default "imposed"
        "imposed": what the policies keep in a replay of the text's trace is imposed on one forward
        pass for each configuration, per layer and KV head; oracles work. "adaptive": the policies
        decide while the model runs, fed with its own attention under eviction.
    mode : {"stream", "prefill"}, default "stream"
        See `kvsim.Options`.
    eviction_interval : int or "never", default 1
        See `kvsim.Options`.
    page : int, tokens, default 1
        See `kvsim.Options`.
    page_score : {"mean", "max", "min"}, default "mean"
        See `kvsim.Options`.
    prompt_length : int, tokens, optional
        Of all texts; only steps after it are measured with mode="prefill".
    trace : path or Trace, optional
        Of the same texts, recorded by this model; None: one is recorded in float32, and removed.
    also : str or sequence of str, optional
        What that trace holds in addition to attention, as for kvsim.recording: output_projection,
        residual, output_score_grad, which the columns projected_error and predicted_kl of the
        replay need. None: output_projection, where the model has one. What a policy needs is
        recorded in any case.
    gradient_samples : int, default 1
        As for kvsim.recording.
    seed : int, default 0
        See `kvsim.Options`.
    allocate : str, default "uniform"
        See `kvsim.Options`.
    output : path, optional
        A result file (SQLite). Rows that it holds of the same text and code are not made again. New
        ones are added to the tables `closed_loop` and `closed_loop_kind` as they are finished, and
        those of the replay to the table `replay`.
    progress : bool or callable, optional
        As for kvsim.sweep, in rows. A bar also says what is being done.
    force : bool, default False
        Makes also the rows that `output` holds already.
    shard : str, default "1/1"
        "I/N": the I-th of N shares of the texts, of equal estimated cost; kvsim.merge joins their
        files.
    scratch : path, optional
        A folder on a local disk in which `output`, which it needs, is written; see `kvsim.Options`.
    per_step : bool, default False
        Keeps KL and NLL of every measured step in `output`, which it needs, in the table
        `closed_loop_step`; rows without them are made again. kvsim.closed_loop_steps reads them.

    Returns
    -------
    pandas.DataFrame
        The columns of the table `closed_loop` (sim/results/columns.md), a row per text, policy and
        budget, ordered by key.

    Raises
    ------
    UsageError
        For what the loop cannot run and for what contradicts itself; else as kvsim.sweep.
    RecordError
        For a model or a text that cannot be recorded.
    DataError, KvsimError
        As kvsim.sweep.
    KeyboardInterrupt
        At Ctrl-C; then the same call does the rest of `output`.
    Exception
        What a policy of Python raises, as kvsim.sweep.

    Warns
    -----
    KvsimWarning
        Of what `all` and `oracles` leave out, which the loop cannot run; else as kvsim.sweep.

    Examples
    --------
    >>> frame = kvsim.evaluate(model, text, policies=["window", "h2o"], budgets=["10%", "20%"])
    >>> frame.groupby(["policy", "budget"])[["kl_mean", "delta_nll"]].mean()
    """
    arguments = dict(locals())
    return evaluate_as(None, protocol=protocol_from(arguments), **arguments)


def evaluate_as(
    command: str | None,
    model: Any,
    texts: object,
    policies: str | type | Sequence[str | type],
    budgets: str | float | Sequence[str | float],
    *,
    tokenizer: Any,
    loop: str,
    protocol: _engine.Protocol,
    prompt_length: int | None,
    trace: str | Path | Trace | None,
    seed: int,
    allocate: str,
    output: str | Path | None,
    progress: Any,
    names: Sequence[str] | None = None,
    also: str | Sequence[str] | None = None,
    gradient_samples: int = 1,
    force: bool = False,
    shard: str = "1/1",
    scratch: str | Path | None = None,
    per_step: bool = False,
    select: str | type | Sequence[str | type] | None = None,
    announce: Callable[[str], object] | None = None,
    check: Callable[[], object] = lambda: None,
    watch: Watch | None = None,
) -> pd.DataFrame:
    """`evaluate` with the command that the table `run` names; None: the call in words.

    `announce` gets the share of the work that a shard is; None: warns if that is nothing. `check`
    is called before each row, and may raise to end. `watch` gets what a Tracker shows, in place of
    `progress`.
    """
    if loop not in LOOPS:
        raise UsageError(f"loop: expected {' or '.join(LOOPS)}, found {loop}")
    check_scratch(scratch, output)
    if not isinstance(per_step, bool):
        raise UsageError(f"per_step: expected True or False, found {per_step!r}")
    if per_step and output is None:
        raise UsageError("per_step: expected output, the result file that keeps the steps")
    how = How(protocol, seed, allocate)
    asked = prepare(
        model, texts, policies, budgets, loop, how,
        tokenizer=tokenizer, names=names, prompt_length=prompt_length, trace=trace,
        also=also, gradient_samples=gradient_samples, select=select,
    )  # fmt: skip
    digest = model_id(asked.model)
    share = share_of(asked, shard, loop, digest)
    if announce is not None and share.note:
        announce(share.note)
    elif share.is_empty:
        warn_of([share.note])
    command = command or asked.in_words(loop, share.shard, per_step)
    replayed = partial(replayed_rows, asked, output, force, command, scratch)
    with closing(Rows(output, digest, loop, how, force, scratch, per_step)) as rows:
        for job in asked.jobs:
            rows.check(job)
            if protocol.mode == "prefill" and not job.prompt_length:
                raise UsageError(f"mode: prefill needs a prompt; {job.source} has no prompt_length")
        rows.begin_run(command, asked.model.device.type, torch.get_num_threads(), share)
        with reporter(progress, "rows") as report:
            tracker = _tracker(progress, report, watch)
            _make(asked, share.jobs, rows, replayed, loop, tracker, check)
        rows.finish_run()
        return rows.asked()


def _tracker(progress: Any, report: Callable[..., object] | None, watch: Watch | None) -> Tracker:
    """Reports rows to the caller, and to a bar also what is being done."""
    if watch is not None:
        return Tracker(watch, estimates=True)
    if report is None:
        return Tracker(lambda *_: None)
    return Tracker((lambda done, total, *_: report(done, total)) if callable(progress) else report)


def _make(
    asked: Asked,
    jobs: Sequence[Job],
    rows: Rows,
    replayed: Callable[..., tuple[dict[Plan, pd.DataFrame], KeptSets]],
    loop: str,
    tracker: Tracker,
    check: Callable[[], object],
) -> None:
    """Makes the rows of `jobs` that are missing, text by text.

    A text without any is not read. With a trace at hand its replays are looked up all the same, so
    that those that the file lacks are made.
    """
    plans = {job.name: asked.plans(job) for job in jobs}
    todo = {job.name: [plan for plan in plans[job.name] if rows.lacks(job, plan)] for job in jobs}
    warn_of(rows.notes())
    total = sum(map(len, plans.values()))
    tracker.count(total - sum(map(len, todo.values())), total)
    read = {job.name: job for job in jobs if todo[job.name] or asked.trace is not None}
    for job in read.values():
        tracker.expect(RECORD, len(job.ids))
        tracker.expect(REPLAY, len(job.ids) * len(plans[job.name]))
        tracker.expect(ROW, len(job.ids) * len(todo[job.name]))
    if tracker.estimates and read:
        tracker.guess(guessed_seconds(asked.model, next(iter(read.values()))))
    for number, job in enumerate(jobs, 1):
        there: Iterable[Plan] = plans[job.name]
        if job.name in read:
            text, tokens = f"text {number} of {len(jobs)}", len(job.ids)
            tracker.begin(f"recording {text}")
            with asked.trace_of(job) as (of_job, full), asked.shown(job, loop):
                tracker.advance(RECORD, tokens, then=f"replaying {text}")
                missing = todo[job.name]
                there, kept = replayed(of_job, job, plans[job.name], missing, tracker)
                left_out = len(missing)
                missing = [plan for plan in missing if plan in there]
                left_out -= len(missing)
                doing = f"{text}, configuration {{}} of {len(missing)}"
                tracker.advance(ROW, tokens * left_out, left_out, then=doing.format(1))
                if missing:
                    work = Work(
                        asked.model, job, of_job, full(), there, missing, kept, asked.how, loop,
                        None if asked.trace is None else asked.vectors(job),
                    )  # fmt: skip
                    made = work.values(lambda: tracker.advance(REPLAY, 0))
                    for index, (plan, values, steps) in enumerate(made, 1):
                        check()
                        rows.add(job, plan, values, steps)
                        following = min(index + 1, len(missing))
                        tracker.advance(ROW, tokens, 1, then=doing.format(following))
        for plan in there:
            rows.ask(job, plan)
    if total > 0:
        tracker.begin("")
