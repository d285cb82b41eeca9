"""python -m kvsim.tune: which policy loses least at a budget, as a recipe."""

from __future__ import annotations

import os
import re
import sys
import warnings
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..command import (
    STATUS_OTHER,
    Parser,
    fail,
    failed,
    natural,
    positive,
    show_warning,
)
from ..command.termination import terminated_as_interrupted
from ..errors import KvsimWarning, RecordWarning
from ..errors.terminal import say
from .open_loop import OBJECTIVES
from .run import tune_as
from .search import RECIPE, RESULTS
from .settings import traces_of
from .space import DEFAULT

_SHARE = re.compile(r"[0-9]*\.[0-9]+")


def parser() -> Parser:
    result = Parser(
        prog="python -m kvsim.tune",
        description="Searches the policy that loses least at a budget: in a replay of many specs, "
        "then imposed on the model with the best of them, then on held-out texts. The folder of -o "
        "gets recipe.yaml, which recipe:file=PATH names, ranked.csv, loss.png and results.sqlite.",
    )
    add = result.add_argument
    add("source", metavar="MODEL|TRACE.h5", nargs="+",
        help="a model (a folder, a GGUF file, or a name on the hub), or traces")  # fmt: skip
    add("--texts", type=Path, metavar="FILE", action="append",
        help="of a model: lines of JSON (.jsonl), as for kvsim.evaluate, or one text; may be "
        "repeated")  # fmt: skip
    add("--budget", required=True, metavar="AMOUNT", help="as in 20%%, 64 or 64KiB")
    add("-o", "--output", type=Path, required=True, metavar="FOLDER",
        help="the same command goes on there")  # fmt: skip
    add("--space", metavar="SPECS",
        help="specs separated by ';' with {a,b} for one of these and {0..0.9}, {1..64} for a "
        "number between them; entries that begin with + or @ may be added to each (default: "
        f"{DEFAULT})")  # fmt: skip
    add("--objective", choices=OBJECTIVES,
        help="of the replay (default: the first of these that the traces can tell)")  # fmt: skip
    add("--held-out", metavar="NAME,NAME|SHARE",
        help="the texts of the report, which the search does not see: names, or a share of the "
        "last ones (default: a third)")  # fmt: skip
    add("--trials", type=positive, default=64, metavar="N", help="specs to replay (default: 64)")
    add("--finalists", type=positive, default=8, metavar="N",
        help="specs that are imposed on the model (default: 8)")  # fmt: skip
    add("--mode", choices=("stream", "prefill"), default="stream",
        help="as for kvsim sweep (default: stream)")  # fmt: skip
    add("--eviction-interval", default="1", metavar="K", help="as for kvsim sweep (default: 1)")
    add("--page", type=positive, default=1, metavar="P",
        help="caches evict whole pages of P tokens (default: 1)")  # fmt: skip
    add("--page-score", choices=("mean", "max", "min"), default="mean",
        help="as for kvsim sweep (default: mean)")  # fmt: skip
    add("--prompt-length", type=positive, metavar="N",
        help="the first N tokens of each text are its prompt")  # fmt: skip
    add("--name", help="a label of the recipe for tables and figures")
    add("--seed", type=natural, default=0, help="of the search and of intervals (default: 0)")
    add("-q", "--quiet", action="store_true", help="no lines on the progress")
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns 0, or 2 for bad usage, 3 for bad data, 1 for other errors."""
    options = parser().parse_args(arguments)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        with terminated_as_interrupted(), warnings.catch_warnings():
            for category in (KvsimWarning, RecordWarning):
                warnings.simplefilter("once", category)
            warnings.showwarning = show_warning
            _run(options)
    except ImportError as error:
        return fail(f"{error}; pip install 'kvsim[record,tune]'", STATUS_OTHER)
    except KeyboardInterrupt:
        there = f"{options.output} keeps what is finished; the same command does the rest"
        return fail(f"interrupted; {there}", STATUS_OTHER)
    except Exception as error:
        return failed(error)
    return 0


def _run(options: Namespace) -> None:
    arguments = vars(options)
    source, quiet = _source(arguments.pop("source")), arguments.pop("quiet")
    held_out = arguments.pop("held_out")
    if held_out is not None and _SHARE.fullmatch(held_out):
        held_out = float(held_out)
    elif held_out is not None and not held_out.endswith("%"):
        held_out = held_out.split(",")
    tuned = tune_as(
        lambda line: None if quiet else say(f"kvsim: {line}"),
        source=source, held_out=held_out, tokenizer=None, figure_budgets=None, progress=False,
        **arguments,
    )  # fmt: skip
    print(tuned.summary(), end="")
    if not quiet:
        say(f"kvsim: {options.output / RECIPE} is written; run it as recipe:file=PATH")
        say(f"kvsim: all rows are in {options.output / RESULTS}")


def _source(names: list[str]) -> Any:
    """The traces, or the name of the model."""
    if len(names) > 1:
        return names
    traces = traces_of(names[0])
    if traces is not None:
        return traces
    from ..model.loading import quieten

    quieten()
    return names[0]


if __name__ == "__main__":
    sys.exit(main())
