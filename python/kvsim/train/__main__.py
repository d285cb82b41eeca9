"""python -m kvsim.train: traces in, a file of scorers out."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

from ..command import STATUS_OTHER, Parser, fail, failed, natural, show_warning
from ..command.termination import terminated_as_interrupted
from ..errors.terminal import say
from .run import train
from .wanted import KINDS, SCOPES, TARGETS


def _parser() -> Parser:
    parser = Parser(
        prog="python -m kvsim.train",
        description="Trains scorers for the policy `learned` on the future of recorded attention. "
        "Replay them on texts that are not among those: learned:file=FILE.npz.",
    )
    add = parser.add_argument
    add("traces", metavar="TRACE", nargs="+", help="of one model")
    add("-o", "--output", required=True, metavar="FILE.npz", help="is replaced")
    add("--kind", choices=KINDS, default=KINDS[0], help="default: %(default)s")
    add("--scope", choices=SCOPES, default=SCOPES[0], help="one scorer for each; default: head")
    add("--target", choices=TARGETS, default=TARGETS[0], help="default: %(default)s")
    add("--features", metavar="NAME,NAME", help="default: all but value and special")
    add("--budgets", metavar="B,B", default="10%,20%", help="of the caches; default: 10%%,20%%")
    add("--policy", metavar="SPEC", default="h2o", help="whose caches; default: %(default)s")
    add("--sequences", metavar="NAME,NAME", help="default: all")
    add("--seed", type=natural, default=0, metavar="N")
    add("-q", "--quiet", action="store_true")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns 0, or 2 for bad usage, 3 for bad data, 1 for other errors."""
    options = vars(_parser().parse_args(arguments))
    quiet, traces, output = (options.pop(name) for name in ("quiet", "traces", "output"))
    options["budgets"] = options["budgets"].split(",")
    try:
        with terminated_as_interrupted(), warnings.catch_warnings():
            warnings.showwarning = show_warning
            rows = train(traces, output, progress=False if quiet else None, **options)
    except KeyboardInterrupt:
        return fail("interrupted; nothing is written", STATUS_OTHER)
    except Exception as error:
        return failed(error)
    if not quiet:
        found = f"kvsim: {output}: {len(rows)} scorers, {rows.samples.sum()} samples"
        if rows.explained.notna().any():
            found += f"; in the last text they explain {rows.explained.mean():.0%} of the target"
        say(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
