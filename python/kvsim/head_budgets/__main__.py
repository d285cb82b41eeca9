"""python -m kvsim.head_budgets: losses of heads in, the file of LUKVPress out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..command import STATUS_DATA, STATUS_OTHER, STATUS_USAGE, Parser, fail
from ..errors import DataError, KvsimError, UsageError
from ..errors.terminal import say
from ..files.head_tables import npy_of
from ..files.partial import written_whole
from ..results import ResultsError
from .split import head_budgets
from .tables import ATTENTION, METRICS


def _parser() -> Parser:
    parser = Parser(
        prog="python -m kvsim.head_budgets",
        description="Splits a model's budget over its layers and KV heads, from the curves of "
        "`kvsim curve` or a sweep at several budgets, and writes float32 [99, layers, kv_heads], "
        "the share that each head removes at compression ratios 1%% to 99%%: what LUKVPress of "
        "kvpress reads.",
    )
    parser.add_argument(
        "losses", metavar="RESULTS.sqlite", help="a result file of kvsim curve or kvsim sweep"
    )
    parser.add_argument("-o", "--output", required=True, metavar="FILE.npy", help="is replaced")
    parser.add_argument("--policy", metavar="SPEC", help="whose losses, where there are several")
    parser.add_argument(
        "--metric",
        default=ATTENTION,
        metavar="NAME",
        help=f"what a head loses: {', '.join(METRICS)}; all but the default need a sweep "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--least",
        metavar="AMOUNT",
        help="what every head keeps: tokens (64) or a share of its text (5%%) (default: 1 token)",
    )
    parser.add_argument("--sequences", metavar="NAME,NAME", help="default: all")
    parser.add_argument(
        "--trace",
        metavar="TRACE",
        help="of the losses: its model has so many layers and KV heads; without it, the highest "
        "ones with losses count as the last. A sweep in prefill mode needs it",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns 0, or 2 for bad usage, 3 for bad data, 1 for other errors."""
    options = _parser().parse_args(arguments)
    names = None if options.sequences is None else options.sequences.split(",")
    path = Path(options.output)

    try:
        if path.suffix != ".npy":
            raise UsageError(f"--output: expected a file .npy, found {path}")
        budgets = head_budgets(
            options.losses, options.policy, metric=options.metric, least=options.least,
            sequences=names, trace=options.trace,
        )  # fmt: skip
        _write(path, budgets)
    except UsageError as error:
        return fail(str(error), STATUS_USAGE)
    except (DataError, ResultsError) as error:
        return fail(str(error), STATUS_DATA)
    except KvsimError as error:
        return fail(str(error), STATUS_OTHER)
    except OSError as error:
        return fail(f"--output: {path}: {error.strerror}", STATUS_OTHER)
    _, layers, heads = budgets.shape
    found = f"kvsim: {path}: {layers} layers x {heads} KV heads"
    if options.trace is None:
        found += ", the highest with curves; name --trace to check them against the model"
    say(found)
    return 0


def _write(path: Path, budgets: np.ndarray) -> None:
    with written_whole(path) as partial:
        partial.write_bytes(npy_of(budgets))


if __name__ == "__main__":
    sys.exit(main())
