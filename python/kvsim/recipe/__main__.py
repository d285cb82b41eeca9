"""python -m kvsim.recipe: a recipe in the form that another program runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ..command import Parser, failed
from ..errors.terminal import say
from .export import FORMS, export_recipe


def _parser() -> Parser:
    parser = Parser(
        prog="python -m kvsim.recipe",
        description="Writes a recipe of python -m kvsim.tune in the form that another program "
        "runs, or says why it has none.",
    )
    parser.add_argument("recipe", type=Path, metavar="RECIPE.yaml")
    parser.add_argument("--to", choices=FORMS, required=True,
        help="kvpress: code of a press; lukv: the array of the split @file, for LUKVPress; pages: "
        "size of a page, budget and policy as JSON")  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE",
        help="replaces an earlier file of the same form")  # fmt: skip
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns 0, or 2 for bad usage, 3 for bad data, 1 for other errors."""
    options = _parser().parse_args(arguments)
    try:
        written = export_recipe(options.recipe, options.to, options.output)
    except Exception as error:
        return failed(error)
    say(f"kvsim: {written} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
