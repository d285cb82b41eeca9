"""kvsim.evaluate: what policies cost the predictions of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..errors import UsageError
from ..model.decoder import model_name
from ..trace import Trace
from ..verbs.options import check_scratch, protocol_from, warn_of
from ..verbs.progress import reporter
from ..verbs.sweep import sweep_as
from .asked import Asked, prepare
from .loops import How, Job, Plan
from .model_id import model_id
from .replayed import with_rows
from .rows import Rows
from .shares import Share, share_of
from .work import Work

if TYPE_CHECKING:
    import pandas as pd

    from .. import _engine

LOOPS = ("imposed", "adaptive")


def evaluate(
    model: Any,
    texts: object,
    policies: str | type | Sequence[str | type],
    budgets: str | float | Sequence[str | float],
    *,
    tokenizer: Any = None,
    names: Sequence[str] | None = None,
    loop: str = "imposed",
    mode: str = "stream",
    eviction_interval: int | str = 1,
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

    >>> frame = kvsim.evaluate(model, text, policies=["window", "h2o"], budgets=["10%", "20%"])
    >>> frame.groupby(["policy", "budget"])[["kl_mean", "delta_nll"]].mean()

    Arguments:
      model: a causal language model of transformers in evaluation mode, or the folder or name of
        one, which is loaded in float32 on the CPU.
      texts: a string, token ids, a dict as in a line of JSON ({"text": ..., "spans": [[first
        character, end, label], ...], "name": ..., "prompt_length": characters}), a Path of a file
        of such lines (.jsonl) or of one text, or a list of these. Spans labelled `answer` are
        counted as right where each of their tokens is the most likely one.
      policies, budgets: as for kvsim.sweep.
      tokenizer: of the texts; None: the model's, from where it was loaded.
      names: of the texts, as sequences; by default that of the line of JSON or of the file, else
        `text-` and 12 digits of the SHA-256 of its token ids.
      loop: "imposed": what the policies keep in a replay of the text's trace is imposed on one
        forward pass for each configuration, per layer and KV head; oracles work. "adaptive": the
        policies decide while the model runs, fed with its own attention under eviction.
      mode, eviction_interval, seed, allocate: as for kvsim.sweep.
      prompt_length: in tokens, of all texts; only steps after it are measured with mode="prefill".
      trace: of the same texts, recorded by this model; None: one is recorded in float32, and
        removed.
      also: what that trace holds in addition to attention, as for kvsim.recording:
        output_projection, residual, output_score_grad, which the columns projected_error and
        predicted_kl of the replay need. None: output_projection, where the model has one. What
        a policy needs is recorded in any case.
      gradient_samples: as for kvsim.recording.
      output: a result file (SQLite). Rows that it holds of the same text and code are not made
        again. New ones are added to the table `closed_loop` as they are finished, and those of the
        replay to the table `replay`.
      progress: as for kvsim.sweep; counts rows.
      force: makes also the rows that `output` holds already.
      shard: "I/N": the I-th of N shares of the texts, of equal estimated cost; kvsim.merge joins
        their files.
      scratch: a folder on a local disk in which `output`, which it needs, is written, as for
        kvsim.sweep.
      per_step: keeps KL and NLL of every measured step in `output`, which it needs, in the table
        `closed_loop_step`; rows without them are made again. kvsim.closed_loop_steps reads them.

    Returns a frame with the columns of the table `closed_loop` (sim/results/columns.md), a row per
    text, policy and budget, ordered by key.

    Raises UsageError for what the loop cannot run and for what contradicts itself, RecordError for
    a model or a text that cannot be recorded, and what kvsim.sweep raises. `all` and `oracles`
    leave out what the loop cannot run, with a KvsimWarning. After KeyboardInterrupt the same call
    does the rest of `output`.
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
    announce: Callable[[str], object] | None = None,
    check: Callable[[], object] = lambda: None,
) -> pd.DataFrame:
    """`evaluate` with the command that the table `run` names; None: the call in words.

    `announce` gets the share of the work that a shard is; None: warns if that is nothing. `check`
    is called before each row, and may raise to end.
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
        also=also, gradient_samples=gradient_samples,
    )  # fmt: skip
    digest = model_id(asked.model)
    share = share_of(asked, shard, loop, digest)
    if announce is not None and share.note:
        announce(share.note)
    elif share.is_empty:
        warn_of([share.note])
    command = command or _command_of(asked, share, loop, how, per_step)
    replayed = partial(_replayed, asked, output, force, command, scratch)
    with closing(Rows(output, digest, loop, how, force, scratch, per_step)) as rows:
        for job in asked.jobs:
            rows.check(job)
            if protocol.mode == "prefill" and not job.prompt_length:
                raise UsageError(f"mode: prefill needs a prompt; {job.source} has no prompt_length")
        rows.begin_run(command, asked.model.device.type, torch.get_num_threads(), share)
        with reporter(progress, "rows") as report:
            _make(asked, share.jobs, rows, replayed, loop, report, check)
        rows.finish_run()
        return rows.asked()


def _command_of(asked: Asked, share: Share, loop: str, how: How, per_step: bool) -> str:
    words = {"policies": asked.specs, "budgets": asked.amounts, "loop": loop, **how.options()}
    if share.shard:
        words["shard"] = share.shard
    if per_step:
        words["per_step"] = True
    arguments = ", ".join(f"{name}={value!r}" for name, value in words.items())
    names = [job.name for job in asked.jobs]
    return f"kvsim.evaluate({model_name(asked.model)!r}, {names}, {arguments})"


def _make(
    asked: Asked,
    jobs: Sequence[Job],
    rows: Rows,
    replayed: Callable[[Trace, Job], pd.DataFrame],
    loop: str,
    report: Callable[[int, int], object] | None,
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
    done = total - sum(map(len, todo.values()))
    for job in jobs:
        there: Iterable[Plan] = plans[job.name]
        missing = todo[job.name]
        if missing or asked.trace is not None:
            with asked.trace_of(job) as (of_job, full):
                there = replays = with_rows(plans[job.name], replayed(of_job, job))
                done += len(missing)
                missing = [plan for plan in missing if plan in replays]
                done -= len(missing)
                if missing:
                    work = Work(asked.model, job, of_job, full(), replays, missing, asked.how, loop)
                    for plan, values, steps in work.values():
                        check()
                        rows.add(job, plan, values, steps)
                        done += 1
                        if report is not None:
                            report(done, total)
        for plan in there:
            rows.ask(job, plan)
        if report is not None:
            report(done, total)


def _replayed(
    asked: Asked,
    output: str | Path | None,
    force: bool,
    command: str,
    scratch: str | Path | None,
    trace: Trace,
    job: Job,
) -> pd.DataFrame:
    """The open-loop rows of a text."""

    def rows(again: bool) -> tuple[pd.DataFrame, list[str]]:
        specs, amounts, options = asked.sweep_of(job)
        options = {**options, "scratch": scratch}
        return sweep_as(command, trace, specs, amounts, options, output, False, force=again)

    found, notes = rows(force)
    warn_of(notes)
    # A row does not say after which prompt it was measured but by its number of steps.
    if (found.steps != len(job.ids) - asked.how.first_step(job)).any():
        found, _ = rows(True)
    return found
