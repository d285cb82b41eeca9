"""kvsim.evaluate: what policies cost the predictions of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..model.decoder import model_name, require_decoder
from ..model.errors import UsageError
from ..model.loading import load_config, load_model, load_tokenizer
from ..options import listed, warn_of
from ..progress import reporter
from ..sweep import sweep_as
from ..trace import Trace
from .choice import Refuse, refused_by_imposed, refused_policies
from .loops import How, Job
from .model_id import model_id
from .recorded import as_in_trace, checked_logits, recorded
from .replayed import plans_of
from .rows import Rows
from .texts import given_texts, jobs_of
from .work import Work

if TYPE_CHECKING:
    import pandas as pd

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
    seed: int = 0,
    allocate: str = "uniform",
    output: str | Path | None = None,
    progress: Any = None,
    force: bool = False,
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
      output: a result file (SQLite). Rows that it holds of the same text and code are not made
        again. New ones are added to the table `closed_loop` as they are finished, and those of the
        replay to the table `replay`.
      progress: as for kvsim.sweep; counts rows.
      force: makes also the rows that `output` holds already.

    Returns a frame with the columns of the table `closed_loop` (sim/results/README.md), a row per
    text, policy and budget, ordered by key.

    Raises UsageError for what the loop cannot run and for what contradicts itself, RecordError for
    a model or a text that cannot be recorded, and what kvsim.sweep raises. `all` and `oracles`
    leave out what the loop cannot run, with a KvsimWarning. After KeyboardInterrupt the same call
    does the rest of `output`.
    """
    return evaluate_as(None, **locals())


def evaluate_as(
    command: str | None,
    model: Any,
    texts: object,
    policies: str | type | Sequence[str | type],
    budgets: str | float | Sequence[str | float],
    *,
    tokenizer: Any,
    loop: str,
    mode: str,
    eviction_interval: int | str,
    prompt_length: int | None,
    trace: str | Path | Trace | None,
    seed: int,
    allocate: str,
    output: str | Path | None,
    progress: Any,
    names: Sequence[str] | None = None,
    force: bool = False,
) -> pd.DataFrame:
    """`evaluate` with the command that the table `run` names; None: the call in words."""
    if loop not in LOOPS:
        raise UsageError(f"loop: expected {' or '.join(LOOPS)}, found {loop}")
    how = How(mode, str(eviction_interval), seed, allocate)
    specs, amounts = listed(policies, ";"), listed(budgets, ",")
    if not specs or not amounts:
        raise UsageError("evaluate takes at least one policy and one budget")
    refused = refused_policies(specs, allocate, loop, refusals(loop))
    given = given_texts(texts)
    has_text = any(isinstance(text.text, str) for text in given)
    model, tokenizer = loaded(model, tokenizer, has_text)
    jobs = jobs_of(given, tokenizer, names, prompt_length)
    require_room(model, jobs)
    if trace is not None:
        trace = trace if isinstance(trace, Trace) else Trace(trace)
        prompted = prompt_length is not None or any(text.prompt_length for text in given)
        jobs = as_in_trace(trace, jobs, prompted)
    rows = Rows(output, model_id(model), loop, how, force)
    for job in jobs:
        rows.check(job)
        if mode == "prefill" and not job.prompt_length:
            raise UsageError(f"mode: prefill needs a prompt; {job.source} has no prompt_length")
    if command is None:
        words = {"policies": specs, "budgets": amounts, "loop": loop, **how.options()}
        told = ", ".join(f"{name}={value!r}" for name, value in words.items())
        command = f"kvsim.evaluate({model_name(model)!r}, {[job.name for job in jobs]}, {told})"
    rows.begin_run(command, model.device.type, torch.get_num_threads())
    with reporter(progress, "rows") as report:
        done = 0
        for index, job in enumerate(jobs):
            with trace_of(model, job, tokenizer, trace) as (of_job, full):
                open_loop = _replayed(of_job, job, specs, amounts, how, output, force, command)
                plans = plans_of(open_loop, refused, specs, amounts, how.whole(job), allocate)
                todo = [plan for plan in plans if rows.ask(job, plan)]
                total = done + len(plans) * (len(jobs) - index)  # texts have as many, but for ties
                done += len(plans) - len(todo)
                if todo:
                    work = Work(model, job, of_job, full(), plans, todo, how, loop)
                    for plan, values in work.values():
                        rows.add(job, plan, values)
                        done += 1
                        if report is not None:
                            report(done, total)
            if report is not None:
                report(done, total)
    return rows.asked()


def _replayed(
    trace: Trace, job: Job, specs: str, amounts: str, how: How,
    output: str | Path | None, force: bool, command: str,
) -> pd.DataFrame:  # fmt: skip
    """The open-loop rows of a text."""

    def rows(again: bool) -> tuple[pd.DataFrame, list[str]]:
        options = {**how.options(), "sequences": [job.name]}
        return sweep_as(command, trace, specs, amounts, options, output, False, force=again)

    found, notes = rows(force)
    warn_of(notes)
    # A row does not say after which prompt it was measured but by its number of steps.
    if (found.steps != len(job.ids) - how.first_step(job)).any():
        found, _ = rows(True)
    return found


@contextmanager
def trace_of(
    model: Any, job: Job, tokenizer: Any, trace: Trace | None
) -> Iterator[tuple[Trace, Callable[[], torch.Tensor]]]:
    """The trace of a text, and what gives its logits with the full cache."""
    if trace is not None:
        yield trace, lambda: checked_logits(model, job, trace)
        return
    with recorded(model, job, tokenizer) as (found, logits):
        yield found, lambda: logits


def loaded(model: Any, tokenizer: Any, needed: bool) -> tuple[Any, Any]:
    """The model and the tokenizer of its texts."""
    if isinstance(model, (str, Path)):
        name = str(model)
        load_config(name)
        model = load_model(name, "float32", torch.device("cpu"))
    else:
        require_decoder(model)
        name = getattr(model.config, "_name_or_path", "")
    if model.training:
        raise UsageError("model: it is being trained; call model.eval() first")
    if tokenizer is None and needed:
        if not name:
            raise UsageError("tokenizer: expected one, since there are texts that are no token ids")
        tokenizer = load_tokenizer(name)
    return model, tokenizer


def require_room(model: Any, jobs: list[Job]) -> None:
    """Raises UsageError for a text that the model cannot read."""
    config = model.config.get_text_config()
    room = getattr(config, "max_position_embeddings", None)
    for job in jobs:
        if room and len(job.ids) > room:
            raise UsageError(
                f"{job.source}: {len(job.ids)} tokens are more than the model's {room} positions; "
                "use a shorter text"
            )
        if (largest := int(job.ids.max())) >= config.vocab_size:
            raise UsageError(
                f"{job.source}: expected token ids below {config.vocab_size}, found {largest}"
            )


def refusals(loop: str) -> Refuse:
    if loop == "imposed":
        return refused_by_imposed
    from .adaptive import refused

    return refused
