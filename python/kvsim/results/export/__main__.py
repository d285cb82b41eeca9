"""`kvsim export --format parquet`, handed over to `python -m kvsim.results.export`."""

import sys
from argparse import Namespace
from collections.abc import Sequence

from ...command import STATUS_DATA, STATUS_OTHER, Parser, fail, failed
from ...command.termination import terminated_as_interrupted
from ...errors import KvsimError
from ...errors.terminal import printable
from ..reading import ResultsError
from .run import ALL, export
from .writers import FORMATS


def _parser() -> Parser:
    parser = Parser(prog="kvsim export", description="Writes tables as Parquet or Arrow.")
    add = parser.add_argument
    add("results", metavar="RESULTS.sqlite")
    add("-o", "--output", required=True, metavar="FILE", help="with --table all a folder")
    add("--table", default="replay", help=f"its name, or {ALL}")
    add("--format", required=True, choices=FORMATS)
    add("--without", default="", metavar="COLUMN,COLUMN")
    return parser


def _run(parsed: Namespace) -> None:
    without = [name for name in parsed.without.split(",") if name]
    rows = export(
        parsed.results, parsed.output, table=parsed.table, format=parsed.format, without=without
    )
    for path, number in rows.items():
        print(printable(f"{path}: {number} rows"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns 0, or 2 for bad usage, 3 for bad data, 1 for other errors."""
    parsed = _parser().parse_args(arguments)
    try:
        with terminated_as_interrupted():
            _run(parsed)
    except ResultsError as error:
        return fail(str(error), STATUS_DATA)
    except KvsimError as error:
        return failed(error)
    except KeyboardInterrupt:
        return fail(f"interrupted; {parsed.output} is not written", STATUS_OTHER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
