"""What python -m kvsim.evaluate does."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import closing
from typing import Any

import torch

from .. import _engine
from ..command.progress import Shown
from ..errors import UsageError
from ..errors.terminal import printable, say
from ..model.loading import (
    device_named,
    load_config,
    load_model,
    load_tokenizer,
    quieten,
)
from ..policy.plugin import load_plugin
from ..verbs.options import protocol_from
from .run import evaluate_as
from .summary import printed, summary
from .texts import read_lines


def load(options: argparse.Namespace) -> tuple[Any, Any]:
    """The model and the tokenizer that a command line names, with its plugins and device."""
    quieten()
    # torch sees no quota of a container or job.
    torch.set_num_threads(min(torch.get_num_threads(), _engine.default_threads()))
    for plugin in options.plugin:
        load_plugin(plugin)
    device = device_named(options.device)
    load_config(options.model)
    tokenizer = load_tokenizer(options.model)
    say(f"kvsim: loading {options.model}")
    return load_model(options.model, options.model_dtype, device), tokenizer


def run(options: argparse.Namespace, command: str, check: Callable[[], None]) -> None:
    """Executes the command line and prints a summary. Raises what kvsim.evaluate raises.

    `check` is called before each row, and raises to end.
    """
    index, count = _engine.parse_shard(options.shard)
    if options.output is None and count > 1:
        raise UsageError("--shard: expected --output, a file of the shard's own for kvsim merge")
    if options.output is None and options.scratch is not None:
        raise UsageError("--scratch: expected --output, the file that is written there")
    if options.output is None and options.per_step:
        raise UsageError("--per-step: expected --output, the result file that keeps the steps")
    model, tokenizer = load(options)
    with closing(Shown("rows")) as shown:
        frame = evaluate_as(
            command,
            model,
            options.text or read_lines(options.texts),
            options.policies,
            options.budgets,
            select=options.select,
            tokenizer=tokenizer,
            loop=options.loop,
            protocol=protocol_from(vars(options)),
            prompt_length=options.prompt_length,
            trace=options.trace,
            also=options.also,
            gradient_samples=options.gradient_samples,
            seed=options.seed,
            allocate=options.allocate,
            output=options.output,
            shard=options.shard,
            scratch=options.scratch,
            per_step=options.per_step,
            announce=lambda note: say(f"kvsim: {note}"),
            check=check,
            progress=False,
            watch=shown,
        )
    if count > 1:
        texts = frame["sequence"].nunique()
        there = f"{texts} text{'' if texts == 1 else 's'} in {options.output}"
        print(printable(f"shard {index}/{count}: {there}; kvsim merge joins the parts"))
        return
    order = [flags["text"] for flags in _engine.specs(options.policies, options.allocate)]
    if options.select:
        order += [flags["text"] for flags in _engine.selector_specs(options.select)]
    print(printed(summary(frame, order), options.format), end="")
