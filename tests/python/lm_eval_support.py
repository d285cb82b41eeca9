"""Questions as tasks and requests of lm-eval, for the tests of its model type `kvsim`."""

import json
from pathlib import Path

import lm_eval
import lm_eval.tasks
from lm_eval.api.instance import Instance

SAMPLE = Path(__file__).parents[2] / "traces/sample"
MODEL = str(SAMPLE / "tiny-retriever")
LINES = (SAMPLE / "questions.jsonl").read_text().splitlines()[:3]
QUESTIONS = [json.loads(line) for line in LINES]
REST = " the"  # of each choice, so that it has several tokens
PREFILL = dict(budget="20%", mode="prefill")


def facts_in(folder):
    """The folder, with questions to be read without a network and without a cache of the user's."""
    (folder / "questions.jsonl").write_text("\n".join(LINES))
    return folder


def task(folder, kind="multiple_choice"):
    shared = dict(
        dataset_path="json", test_split="test", doc_to_text="{{context}}{{question}}",
        dataset_kwargs=dict(
            data_files={"test": str(folder / "questions.jsonl")}, cache_dir=str(folder / "cache")
        ),
    )  # fmt: skip
    if kind == "multiple_choice":
        choices = "{{choices | map('regex_replace', '$', '" + REST + "') | list}}"
        own = dict(doc_to_choice=choices, doc_to_target="answer", target_delimiter="")
        metric = "acc"
    else:
        settings = dict(until=["\n"], max_gen_toks=5)
        own = dict(doc_to_target="{{choices[answer]}}", generation_kwargs=settings)
        metric = "exact_match"
    mean = dict(metric=metric, aggregation="mean", higher_is_better=True)
    return {"task": kind, "output_type": kind, "metric_list": [mean], **shared, **own}


def evaluated(model, tasks, **arguments):
    tasks_of = lm_eval.tasks.TaskManager(include_defaults=False)
    return lm_eval.simple_evaluate(
        model, tasks=tasks, task_manager=tasks_of, bootstrap_iters=0, **arguments
    )


def requests(kind, *arguments):
    return [Instance(kind, {}, each, 0) for each in arguments]


def asked(question):
    return question["context"] + question["question"]


def pairs(rest=REST):
    """Each question with each of its choices."""
    return [(asked(each), choice + rest) for each in QUESTIONS for choice in each["choices"]]


def scores(lm, arguments):
    return lm.loglikelihood(requests("loglikelihood", *arguments), disable_tqdm=True)


def generated(lm, arguments):
    return lm.generate_until(requests("generate_until", *arguments), disable_tqdm=True)
