"""`python -m kvsim.report RESULTS.sqlite -o DIR`."""

import argparse
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..command import STATUS_DATA, STATUS_OTHER, STATUS_USAGE, Parser, fail
from ..command.termination import terminated_as_interrupted
from ..errors import DataError
from ..results import ResultsError, load
from .numbers.choice import Choice, ChoiceError


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="kvsim report",
        description="Draws the figures of a result file and one page that shows them, and prints "
        "where the page is and how many figures it has. Every mean and difference has its 95%% "
        "interval. If the file has several traces, modes or seeds, it shows the one with the most "
        "rows by default. The page can be explored in a browser, without a network, as long as "
        "plotly.min.js lies next to it; without that file or without scripts it shows pictures.",
    )
    parser.add_argument(
        "results",
        metavar="RESULTS.sqlite",
        help="a result file of kvsim sweep or fetch, or of kvsim.tasks",
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="DIR", help="the folder to write to"
    )
    parser.add_argument("--trace-id", metavar="ID", help="the first characters of the trace_id")
    parser.add_argument(
        "--sequence",
        action="append",
        default=[],
        metavar="NAME",
        help="a sequence to show; repeat the option for more; default: all",
    )
    parser.add_argument(
        "--mode",
        metavar="MODE",
        help="the mode of the rows: stream, stream:every=10, prefill:interval=never",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="the seed of random choices")
    parser.add_argument(
        "--budget",
        metavar="B",
        help="budget of overview, maps, tasks and table, 20%% or 102; default: the largest",
    )
    parser.add_argument(
        "--policies",
        type=_names,
        default=(),
        metavar="SPEC;SPEC",
        help="names, labels, or names with some of their parameters as in 'h2o:recent=0.25'; "
        "'all': every policy in every figure; default: "
        "every policy in the table, and in the figures at most ten",
    )
    parser.add_argument("--layer", type=int, metavar="L", help="the layer of the attention map")
    parser.add_argument("--query-head", type=int, metavar="H", help="the head of the attention map")
    parser.add_argument("--trace", metavar="FILE", help="the trace file, if it has moved")
    parser.add_argument(
        "--calibration",
        metavar="FILE",
        help="a result file of kvsim.evaluate with the same model on other texts or policies, to "
        "weigh the errors of layers by; default: RESULTS.sqlite, where it has such rows",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    return parser


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(";") if name.strip())
    if not names:
        raise argparse.ArgumentTypeError("expected names or specs, found none")
    return names


def announced(drawings: list) -> Iterable:
    """The drawings, with a progress bar on a terminal and plain lines elsewhere."""
    if sys.stderr.isatty():
        from tqdm import tqdm

        yield from tqdm(drawings, desc="figures", unit="figure", leave=False)
        return
    for number, drawing in enumerate(drawings, 1):
        yield drawing
        print(f"kvsim: {number} of {len(drawings)} figures: {drawing.name}", file=sys.stderr)


def _said(written: Sequence[Path]) -> str:
    """What the command prints of the files that it wrote, the page first."""
    figures = len(
        {file.name.rpartition("-")[0] for file in written if file.parent.name == "figures"}
    )
    return f"{written[0]}: {figures} figure{'' if figures == 1 else 's'}"


def _let_go() -> None:
    """Sends what is left to print nowhere: a pipe has closed, and Python would complain at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns 0, or 2 for bad usage, 3 for bad data, 1 for other errors."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(arguments)
    choice = Choice(
        trace_id=options.trace_id,
        sequences=tuple(options.sequence),
        mode=options.mode,
        seed=options.seed,
        budget=options.budget,
        policies=options.policies,
        layer=options.layer,
        query_head=options.query_head,
        trace=options.trace,
        calibration=options.calibration,
    )
    try:
        from .page import chosen, write_report

        with terminated_as_interrupted():
            written = write_report(
                chosen(load(options.results), choice),
                Path(options.output),
                command=shlex.join(["kvsim", "report", *arguments]),
                progress=iter if options.quiet else announced,
            )
    except ImportError as error:
        again = "install kvsim again: pip install WHEEL, or in the source folder pip install ."
        return fail(f"{error}; {again}", STATUS_OTHER)
    except (ResultsError, DataError) as error:
        return fail(str(error), STATUS_DATA)
    except ChoiceError as error:
        return fail(str(error), STATUS_USAGE)
    except BrokenPipeError:
        _let_go()
        return STATUS_OTHER
    except (FileExistsError, NotADirectoryError) as error:
        path = Path(error.filename)
        file = next((part for part in (path, *path.parents) if part.is_file()), path)
        return fail(f"--output: {file}: there is a file of that name", STATUS_USAGE)
    except OSError as error:
        return fail(f"--output: {options.output}: {error.strerror}", STATUS_OTHER)
    except KeyboardInterrupt:
        return fail("interrupted; no report was written", STATUS_OTHER)
    try:
        print(_said(written), flush=True)
    except BrokenPipeError:
        _let_go()
    return 0


if __name__ == "__main__":
    sys.exit(main())
