"""`kvsim traces`, which the program hands over to `python -m kvsim.catalogue`."""

import sys
from argparse import Namespace
from collections.abc import Sequence

from ..command import STATUS_OTHER, Parser, fail, failed
from ..command.notes import notes_printed
from ..command.progress import Shown
from ..command.termination import terminated_as_interrupted
from ..errors import UsageError
from ..errors.terminal import printable
from .entries import entry_named
from .get import fetch, output_of
from .make import make_trace
from .page import FORMATS, listing

_OF = {"get": ("output", "url"), "make": ("output", "model", "source"), None: ("format",)}


def _parser() -> Parser:
    parser = Parser(prog="kvsim traces", description="Lists known traces, fetches or makes one.")
    add = parser.add_argument
    add("action", nargs="?", choices=("get", "make"), metavar="get|make")
    add("name", nargs="?", metavar="NAME")
    add("--format", choices=FORMATS, help="of the list")
    add("-o", "--output", metavar="FILE", help="the trace to write: NAME.h5 if there is none")
    add("--url", help="get: of the folder of files")
    add("--model", metavar="PATH", help="make: the model's file or folder")
    add("--source", metavar="FOLDER", help="make: the source folder of kvsim: this one")
    add("-q", "--quiet", action="store_true")
    return parser


def _run(options: Namespace) -> None:
    action, name = options.action, options.name
    for option in ("format", "output", "url", "model", "source"):
        if getattr(options, option) is not None and option not in _OF[action]:
            verb = f"kvsim traces {action or ''}".strip()
            raise UsageError(f"--{option}: {verb} has no such option; see kvsim traces --help")
    if action is None:
        sys.stdout.write(listing(options.format or "text"))
        return
    if name is None:
        raise UsageError(f"expected a name; usage: kvsim traces {action} NAME")
    if action == "get":
        _get(options)
        return
    with notes_printed():
        made = make_trace(name, options.output, options.model, options.source or ".")
    print(printable(made.verdict))


def _get(options: Namespace) -> None:
    entry, path = entry_named(options.name), output_of(options.name, options.output)
    shown = Shown("bytes")

    def show(done: int, total: int) -> None:
        shown(done, total, "receiving", None)

    try:
        was_fetched = fetch(entry, path, options.url, False if options.quiet else show)
    finally:
        shown.close()
    what = "has the listed digest" if was_fetched else "is there, with the listed digest"
    print(printable(f"{path} {what}"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns 0, or 2 for bad usage, 3 for bad data, 1 for other errors."""
    parsed = _parser().parse_args(arguments)
    try:
        with terminated_as_interrupted():
            _run(parsed)
    except Exception as error:  # libraries that run a model raise many kinds
        return failed(error)
    except KeyboardInterrupt:
        output = output_of(parsed.name, parsed.output) if parsed.name else "the list"
        kept = "; the same command goes on from what is kept" if parsed.action == "get" else ""
        return fail(f"interrupted; {output} is not written{kept}", STATUS_OTHER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
