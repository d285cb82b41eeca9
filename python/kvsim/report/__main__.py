"""`python -m kvsim.report RESULTS.sqlite -o DIR`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn, Optional

from kvsim.report.choice import Choice, ChoiceError
from kvsim.report.frames import Comparison
from kvsim.report.page import write_report
from kvsim.results import ResultsError, load

_USAGE, _DATA, _OTHER = 2, 3, 1


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        _fail(f"{message}; see python -m kvsim.report --help", _USAGE)


def _fail(message: str, status: int) -> NoReturn:
    print("kvsim: error: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(status)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="kvsim report",
        description="Draws the figures of a result file and one page that shows them. Of several "
        "traces, modes and seeds the one with the most rows is shown, unless one is chosen.",
    )
    parser.add_argument("results", metavar="RESULTS.sqlite", help="what kvsim sweep has written")
    parser.add_argument(
        "-o", "--output", required=True, metavar="DIR", help="the folder to write to"
    )
    parser.add_argument("--trace-id", metavar="ID", help="its first characters are enough")
    parser.add_argument(
        "--sequence",
        action="append",
        default=[],
        metavar="NAME",
        help="again for each; default: all",
    )
    parser.add_argument("--mode", metavar="MODE", help="stream or prefill")
    parser.add_argument("--seed", type=int, metavar="N", help="of random choices")
    parser.add_argument(
        "--budget", metavar="B", help="of maps and table, 20%% or 102; default: the largest"
    )
    parser.add_argument(
        "--policies", metavar="SPEC;SPEC", help="names or canonical specs; default: all"
    )
    parser.add_argument("--layer", type=int, metavar="L", help="of the attention map")
    parser.add_argument("--query-head", type=int, metavar="H", help="of the attention map")
    parser.add_argument("--trace", metavar="FILE", help="where the trace is now")
    return parser


def main(arguments: Optional[list[str]] = None) -> None:
    options = _parser().parse_args(arguments)
    choice = Choice(
        trace_id=options.trace_id,
        sequences=tuple(options.sequence),
        mode=options.mode,
        seed=options.seed,
        budget=options.budget,
        policies=tuple(name for name in (options.policies or "").split(";") if name),
        layer=options.layer,
        query_head=options.query_head,
        trace=options.trace,
    )
    try:
        page = write_report(Comparison(load(options.results), choice), Path(options.output))
    except ResultsError as error:
        _fail(str(error), _DATA)
    except ChoiceError as error:
        _fail(str(error), _USAGE)
    except OSError as error:
        _fail(f"--output: {error}", _OTHER)
    print(page)


if __name__ == "__main__":
    main()
