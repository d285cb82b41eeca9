"""`kvsim labels TRACE -o labels.npz`, which the program hands over to `python -m kvsim.labels`."""

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from ..command import STATUS_OTHER, Parser, fail, failed, positive
from ..command.termination import terminated_as_interrupted
from ..errors import KvsimError
from ..verbs.progress import reporter
from .files import check_output, written
from .run import BLOCK
from .units import Labelling

_LINES = 10


def _parser() -> Parser:
    parser = Parser(prog="kvsim labels", description="Writes what learned policies train on.")
    add = parser.add_argument
    add("trace", metavar="TRACE")
    add("-o", "--output", required=True, metavar="FILE", help="labels.npz or labels.parquet")
    add("--budgets", action="append", metavar="B,B", help="of optimal: 5%%,0.2,256")
    add("--block", type=positive, default=BLOCK, metavar="N", help="steps of a block")
    add("--sequences", metavar="NAME,NAME")
    add("--layers", metavar="LIST")
    add("--heads", metavar="LIST")
    add("--mode")
    add("--eviction-interval", metavar="K")
    add("--threads", type=positive, metavar="N")
    add("-q", "--quiet", action="store_true")
    return parser


def _lines() -> Callable[[int, int], None]:
    """Says at every tenth how far the run is, where no bar is drawn."""
    shown = 0

    def report(done: int, total: int) -> None:
        nonlocal shown
        if _LINES * done // total > shown:
            shown = _LINES * done // total
            print(f"kvsim: {done} of {total} units", file=sys.stderr)

    return report


def _write(arguments: Namespace) -> None:
    path = check_output(arguments.output)
    names = ("sequences", "layers", "heads", "mode", "eviction_interval", "threads")
    options = {name: getattr(arguments, name) for name in names}
    labelling = Labelling(arguments.trace, arguments.budgets, arguments.block, options)
    if not arguments.quiet:
        mebibytes = labelling.memory_bytes >> 20
        print(
            f"kvsim: labels of {len(labelling)} units; about {mebibytes} MiB of memory on "
            f"{labelling.threads} threads",
            file=sys.stderr,
        )
    bar = sys.stderr.isatty() and not arguments.quiet
    lines = None if arguments.quiet else _lines()
    with (
        reporter(True, "units") if bar else nullcontext(lines) as report,
        written(path, labelling) as file,
    ):
        for unit in labelling.units(report):
            file.add(unit)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns 0, or 2 for bad usage, 3 for bad data, 1 for other errors."""
    parsed = _parser().parse_args(arguments)
    try:
        with terminated_as_interrupted():
            _write(parsed)
    except KvsimError as error:
        return failed(error)
    except KeyboardInterrupt:
        return fail(f"interrupted; {parsed.output} is not written", STATUS_OTHER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
