"""What build.py does.

The table of results: python build.py writes index.html and table.md from submissions/.

python build.py --check FILE...                  says what is wrong with submissions
python build.py --trim RESULTS.sqlite -o submissions/NAME.sqlite --by WHO --texts WHERE
                                                 makes one of a result file
python build.py --stale                          says whether the pages are those of submissions/
"""

from __future__ import annotations

import argparse
from datetime import datetime, timezone
from pathlib import Path

from kvsim.command import STATUS_DATA, STATUS_USAGE, Parser, fail
from kvsim.errors import KvsimError, UsageError

from .check import faults
from .markdown import markdown
from .page import page
from .submission import read
from .trim import trim

HERE = Path(__file__).resolve().parents[1]
SUBMISSIONS = HERE / "submissions"


def pages(folder: Path = SUBMISSIONS) -> dict[str, str]:
    """The text of each page, by its name. Raises DataError where a submission cannot be read."""
    submissions = [read(path) for path in sorted(folder.glob("*.sqlite"))]
    return {"index.html": page(submissions), "table.md": markdown(submissions)}


def stale(found: dict[str, str], folder: Path = HERE) -> list[str]:
    """A line for each page that is not what the submissions give."""
    return [
        f"{folder / name}: expected what the submissions give, found other text; run build.py"
        for name, text in found.items()
        if not (folder / name).is_file() or (folder / name).read_bytes() != text.encode()
    ]


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 done, 2 bad usage, 3 a file is not valid or a page is stale."""
    options = _parser().parse_args(arguments)
    try:
        if options.trim is not None:
            return _trim(options)
        if options.check:
            return _said([line for path in options.check for line in faults(path)])
        checked = [line for path in sorted(SUBMISSIONS.glob("*")) for line in faults(path)]
        if checked:
            return _said(checked)
        found = pages()
        if options.stale:
            return _said(stale(found))
        for name, text in found.items():
            (HERE / name).write_text(text, encoding="utf-8", newline="\n")
            print(HERE / name)
        return 0
    except UsageError as error:
        return fail(str(error), STATUS_USAGE)
    except KvsimError as error:
        return fail(str(error), STATUS_DATA)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="build.py", description=__doc__.partition("\n\n")[2], formatter_class=_Plain
    )
    verb = parser.add_mutually_exclusive_group()
    verb.add_argument("--check", nargs="+", type=Path, metavar="FILE", help="check submissions")
    verb.add_argument("--stale", action="store_true", help="check the pages, write nothing")
    verb.add_argument("--trim", type=Path, metavar="RESULTS", help="make a submission of a file")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="with --trim: the file")
    parser.add_argument("--by", metavar="WHO", help="with --trim: who measured")
    parser.add_argument("--texts", metavar="WHERE", help="with --trim: an address of the texts")
    parser.add_argument("--note", metavar="TEXT", help="what a reader should know")
    parser.add_argument("--exception", metavar="TEXT", help="why values are missing, if any are")
    parser.add_argument("--where", metavar="SQL", help="keep rows for which this holds: all")
    return parser


class _Plain(argparse.RawDescriptionHelpFormatter):
    """Lines of the description stay as they are."""


def _trim(options: argparse.Namespace) -> int:
    for option in ("output", "by", "texts"):
        if not getattr(options, option):
            raise UsageError(f"--trim: expected --{option}, found none; see build.py --help")
    about = {
        "submitted_by": options.by,
        "submitted": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "texts": options.texts,
        "note": options.note,
        "exception": options.exception,
    }
    trim(options.trim, options.output, about, options.where)
    print(options.output)
    return _said(faults(options.output))


def _said(lines: list[str]) -> int:
    for line in lines:
        fail(line, STATUS_DATA)
    return STATUS_DATA if lines else 0
