"""python -m kvsim.tasks: makes texts that ask questions, asks a model, and scores its answers."""

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ..command import STATUS_DATA, STATUS_OTHER, STATUS_USAGE, Parser, fail, natural, positive
from ..command.csv_text import csv_text
from ..errors.terminal import printable, say
from ..files.partial import written_whole
from .asking import command as asking
from .few_shot import BETWEEN, TEMPLATE
from .synthetic import command as synthetic

DESCRIPTION = (
    "Makes texts of k solved examples and a question, as the few-shot tasks of H2O's Tables 1 and "
    "10, for kvsim.evaluate, kvsim.reproduce and kvsim.record."
)


def parser() -> Parser:
    result = Parser(
        prog="python -m kvsim.tasks",
        description="Makes texts that ask questions, asks a model whose cache policies compress, "
        "and scores its answers.",
    )
    verbs = result.add_subparsers(dest="verb", required=True, metavar="VERB")
    make = verbs.add_parser(
        "few-shot", help="writes a text per question, or per choice", description=DESCRIPTION
    )
    add = make.add_argument
    add("questions", type=Path, metavar="QUESTIONS",
        help='a question per line: {"question": "...", "choices": ["...", ...], "answer": text or '
        'place of the right one}, with "context", "spans" and "name" on request; or OpenBookQA and '
        "ARC as published")  # fmt: skip
    add("-o", "--output", type=Path, required=True, metavar="TEXTS.jsonl", help="to write")
    add("--shots", type=natural, default=5, metavar="K", help="solved examples (default: 5)")
    add("--count", type=positive, metavar="N", help="ask the first N questions (default: all)")
    add("--seed", type=natural, default=0, help="of the draw of examples (default: 0)")
    add("--examples", type=Path, metavar="FILE",
        help="draw examples from these (default: from the other ones of QUESTIONS)")  # fmt: skip
    add("--choices", action="store_true",
        help="a text for each choice, for score (default: one, with the answer)")  # fmt: skip
    add(
        "--template",
        type=asking.unescaped,
        default=TEMPLATE,
        metavar="TEXT",
        help=f"how an example is written; \\n is a line break (default: {_escaped(TEMPLATE)})",
    )
    add("--between", type=asking.unescaped, default=BETWEEN, metavar="TEXT",
        help=f"what stands between examples (default: {_escaped(BETWEEN)})")  # fmt: skip
    synthetic.add_verbs(verbs)
    asking.add_verb(verbs)
    score = verbs.add_parser(
        "score", help="sums up what was answered", description="The scores of tasks that the verb "
        "evaluate asked; with --texts the accuracy of multiple choice: the choice after which the "
        "sum of log-probabilities is largest.",
    )  # fmt: skip
    score.add_argument("results", type=Path, metavar="RESULTS.sqlite",
        help="of the verb evaluate, or with --texts of kvsim.evaluate")  # fmt: skip
    score.add_argument("--texts", type=Path, metavar="TEXTS.jsonl",
        help="what few-shot --choices wrote and kvsim.evaluate read")  # fmt: skip
    score.add_argument("--format", choices=("table", "csv", "json"), default="table")
    return result


def _escaped(text: str) -> str:
    return text.replace("\n", "\\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns 0, or 2 for bad usage, 3 for bad data, 1 for other errors."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    options = parser().parse_args(arguments)
    from ..errors import DataError, KvsimError, UsageError
    from ..record import RecordError
    from ..results import NoSuchTable, ResultsError

    evaluate = partial(asking.run, arguments=arguments)
    runs = {"few-shot": _make, **synthetic.RUN, "evaluate": evaluate, "score": _score}
    try:
        runs[options.verb](options)
    except UsageError as error:
        return fail(str(error), STATUS_USAGE)
    except (RecordError, DataError, ResultsError, NoSuchTable) as error:
        return fail(str(error), STATUS_DATA)
    except KeyboardInterrupt:
        keeps = options.verb == "evaluate" and options.output is not None
        kept = f"{options.output} keeps the finished rows; the same command does the rest"
        return fail(f"interrupted; {kept if keeps else 'nothing is kept'}", STATUS_OTHER)
    except (KvsimError, OSError, ImportError) as error:
        return fail(str(error), STATUS_OTHER)
    return 0


def _make(options: argparse.Namespace) -> None:
    from .few_shot import Template, few_shot
    from .questions import read_questions

    examples = None if options.examples is None else read_questions(options.examples)
    texts = few_shot(
        read_questions(options.questions), options.shots, seed=options.seed, count=options.count,
        examples=examples, choices=options.choices,
        template=Template(options.template, options.between),
    )  # fmt: skip
    lines = [json.dumps(text, ensure_ascii=False) + "\n" for text in texts]
    with written_whole(options.output) as partial:
        partial.write_text("".join(lines), "utf-8")
    say(f"kvsim: {len(lines)} texts in {options.output}")


def _score(options: argparse.Namespace) -> None:
    from ..errors import DataError
    from ..results import load
    from .asking.summary import printed, scores
    from .multiple_choice import multiple_choice

    if options.texts is None:
        print(printed(scores(load(options.results).task_answer), options.format), end="")
        return
    try:
        lines = options.texts.read_text("utf-8").split("\n")
        texts = [json.loads(line) for line in lines if line.strip()]
        found = multiple_choice(load(options.results).closed_loop, texts)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{options.texts}: expected texts of few-shot --choices: {error}"
        ) from error
    if options.format == "csv":
        print(csv_text(found), end="")
    elif options.format == "json":
        print(found.to_json(orient="records", indent=1))
    else:
        shown = found.map(lambda cell: printable(cell) if isinstance(cell, str) else cell)
        print(shown.to_string(index=False, float_format="{:.3f}".format))


if __name__ == "__main__":
    sys.exit(main())
