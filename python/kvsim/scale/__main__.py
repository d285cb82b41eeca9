"""python -m kvsim.scale: what a sweep would reach on many workers."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..command import (
    STATUS_DATA,
    STATUS_OTHER,
    STATUS_USAGE,
    Parser,
    fail,
    natural,
    nonnegative,
    positive,
)
from ..command.csv_text import csv_text
from ..errors import DataError, KvsimError, UsageError

if TYPE_CHECKING:
    import pandas as pd

_OF_PLAN = ("mode", "sequences", "layers", "heads", "eviction_interval", "allocate")


def _parser() -> Parser:
    parser = Parser(
        prog="python -m kvsim.scale",
        description="What a sweep of these traces would reach on many workers, with an executor "
        "and as shards, and what limits it: a model of the schedule. Nothing is replayed. "
        "sim/sweep/cluster.md explains it.",
    )
    add = parser.add_argument
    add("traces", nargs="+", metavar="TRACE")
    add("--policies", required=True, metavar="SPEC;SPEC")
    add("--budgets", required=True, metavar="B,B", help="5%%,0.2,256")
    add("--workers", type=_counts, default=[64, 1024, 10_000], metavar="N,N",
        help="each one core (default: 64,1024,10000)")  # fmt: skip
    add("--units", type=positive, metavar="N",
        help="as if there were so many, of texts like these (default: as there are)")  # fmt: skip
    add("--unit-seconds", type=nonnegative, metavar="S",
        help="what a unit takes in the mean, all its configurations, where you measured it "
        "(default: the plan's estimate)")  # fmt: skip
    add("--shard-threads", type=positive, default=1, metavar="N",
        help="workers of one shard (default: 1)")  # fmt: skip
    add("--overhead", type=_overhead, default={}, metavar="NAME=S,...",
        help="seconds beside the replays: worker, submit, receive (per task), plan, store, collect "
        "(per row), commit (of a shard per task, with an executor for all tasks that have come "
        "meanwhile); the default is measured")  # fmt: skip
    add("--startup", type=nonnegative, default=0.0, metavar="S",
        help="until a worker takes its first task, also after a death (default: 0)")  # fmt: skip
    add("--stragglers", type=_stragglers, default=(0.0, 1.0), metavar="SHARE,FACTOR",
        help="how many workers are slow, and how many times as long they take: 0.01,3")  # fmt: skip
    add("--deaths", type=nonnegative, metavar="HOURS",
        help="mean time between the deaths of a worker (default: none)")  # fmt: skip
    add("--seed", type=natural, default=0, metavar="N", help="of what is drawn (default: 0)")
    for name in _OF_PLAN:
        add(f"--{name.replace('_', '-')}", metavar="VALUE", help="as kvsim sweep takes it")
    add("--format", choices=("table", "csv", "json"), default="table", help="(default: table)")
    return parser


def _counts(text: str) -> list[int]:
    return [positive(each) for each in text.split(",")]


def _overhead(text: str) -> dict[str, float]:
    pairs = [each.partition("=") for each in text.split(",")]
    if not all(value for *_, value in pairs):
        raise argparse.ArgumentTypeError(f"expected NAME=SECONDS,..., found {text}")
    return {name: nonnegative(value) for name, _, value in pairs}


def _stragglers(text: str) -> tuple[float, float]:
    share, _, factor = text.partition(",")
    if not factor:
        raise argparse.ArgumentTypeError(f"expected SHARE,FACTOR as 0.01,3, found {text}")
    return nonnegative(share), nonnegative(factor)


def _print(found: "pd.DataFrame", form: str) -> None:
    if form == "csv":
        print(csv_text(found), end="")
    elif form == "json":
        print(found.to_json(orient="records", indent=1))
    else:
        shown = found.assign(
            makespan=[f"{s:.0f} s" if s >= 10 else f"{s:.2g} s" for s in found.makespan],
            efficiency=[f"{100 * share:.1f}%" for share in found.efficiency],
            efficiency_without=[f"{100 * share:.1f}%" for share in found.efficiency_without],
        )
        print(shown.rename(columns={"efficiency_without": "without it"}).to_string(index=False))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns 0, or 2 for bad usage, 3 for bad data, 1 for other errors."""
    given = _parser().parse_args(arguments)
    from .run import scale

    try:
        found = scale(
            given.traces,
            given.policies,
            given.budgets,
            given.workers,
            units=given.units,
            unit_seconds=given.unit_seconds,
            shard_threads=given.shard_threads,
            overhead=given.overhead,
            startup=given.startup,
            stragglers=given.stragglers,
            deaths=given.deaths,
            seed=given.seed,
            **{name: getattr(given, name) for name in _OF_PLAN if getattr(given, name)},
        )
    except UsageError as error:
        return fail(str(error), STATUS_USAGE)
    except DataError as error:
        return fail(str(error), STATUS_DATA)
    except KvsimError as error:
        return fail(str(error), STATUS_OTHER)
    _print(found, given.format)
    return 0


if __name__ == "__main__":
    sys.exit(main())
