"""lm-eval with a model that evicts: its scores are those of the closed loop at the same place."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import ClassVar

import lm_eval
import lm_eval.tasks
import pytest
import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from transformers import AutoModelForCausalLM, AutoTokenizer

import kvsim
from kvsim.lm_eval import EvictingLM
from kvsim.lm_eval.__main__ import main
from kvsim.model.cache import cache_argument, returned_cache
from kvsim.tasks import multiple_choice

SAMPLE = Path(__file__).parents[2] / "traces/sample"
MODEL = str(SAMPLE / "tiny-retriever")
LINES = (SAMPLE / "questions.jsonl").read_text().splitlines()[:3]
QUESTIONS = [json.loads(line) for line in LINES]
REST = " the"  # of each choice, so that it has several tokens
PREFILL = dict(budget="20%", mode="prefill")


@pytest.fixture(scope="module")
def loaded():
    return AutoModelForCausalLM.from_pretrained(MODEL), AutoTokenizer.from_pretrained(MODEL)


@pytest.fixture(scope="module")
def evicting_lm(loaded):
    """A model type `kvsim` with these options."""
    model, tokenizer = loaded
    return partial(EvictingLM, model, tokenizer=tokenizer)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with questions, read without a network and without a cache of the user's."""
    folder = tmp_path_factory.mktemp("facts")
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
        told = dict(until=["\n"], max_gen_toks=5)
        own = dict(doc_to_target="{{choices[answer]}}", generation_kwargs=told)
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


def likelihoods(answers):
    return [likelihood for likelihood, _ in answers]


def test_the_full_cache_scores_as_lm_eval_itself(loaded, evicting_lm, data):
    plain = HFLM(loaded[0], tokenizer=loaded[1], batch_size=4)
    tasks = [task(data), task(data, "generate_until")]
    expected = evaluated(plain, tasks)
    found = evaluated(evicting_lm(policy="full", **PREFILL), tasks)
    assert found["results"] == expected["results"]
    assert found["results"]["multiple_choice"]["acc,none"] == 1
    for one, other in zip(*(run["samples"]["multiple_choice"] for run in (found, expected))):
        for mine, theirs in zip(one["resps"], other["resps"], strict=True):
            assert mine[0][0] == pytest.approx(theirs[0][0], abs=1e-4)
            assert mine[0][1] == theirs[0][1]
    for one, other in zip(*(run["samples"]["generate_until"] for run in (found, expected))):
        assert one["resps"] == other["resps"]
    info = found["config"]["kvsim"]
    assert (info["policy"], info["budget"], info["mode"]) == ("full", "20%", "prefill")
    assert info["peak_tokens"] > 128 and info["cache_bytes"] > 0


def test_a_policy_scores_as_the_closed_loop_with_the_prompt_at_the_same_place(
    loaded, evicting_lm, data
):
    texts = []
    for question in QUESTIONS[:2]:
        before = asked(question)
        for place, choice in enumerate(question["choices"], 1):
            label = "answer" if place - 1 == question["answer"] else "choice"
            texts.append({
                "name": f"{question['name']}.choice-{place}", "text": before + choice + REST,
                "spans": [[len(before), len(before + choice + REST), label]],
                "prompt_length": len(question["context"]) + 1,  # all but the token that is asked
            })  # fmt: skip
    rows = kvsim.evaluate(
        loaded[0], texts, "h2o;spatten", ["20%"], mode="prefill", loop="adaptive",
        tokenizer=loaded[1], progress=False,
    )  # fmt: skip
    for row in multiple_choice(rows, texts).to_dict("records"):
        found = evaluated(evicting_lm(policy=row["policy"], **PREFILL), [task(data)], limit=2)
        assert found["results"]["multiple_choice"]["acc,none"] == row["accuracy"] < 1
        of_policy = rows[rows["policy"] == row["policy"]].set_index("sequence")
        expected = -of_policy["nll"] * (of_policy["steps"] - 1)
        for sample in found["samples"]["multiple_choice"]:
            for place, answer in enumerate(sample["resps"], 1):
                of_choice = expected[f"{sample['doc']['name']}.choice-{place}"]
                assert answer[0][0] == pytest.approx(of_choice, abs=1e-4)
        assert found["config"]["kvsim"]["peak_tokens"] <= 0.2 * 128 + 1


@pytest.mark.parametrize("policy", ["h2o", "spatten"])
def test_the_first_token_of_an_answer_is_predicted_by_what_was_kept(policy, loaded, evicting_lm):
    model, tokenizer = loaded
    lm = evicting_lm(policy=policy, **PREFILL)
    context = asked(QUESTIONS[0])
    ids = tokenizer(context, return_tensors="pt").input_ids
    with (
        torch.no_grad(),
        kvsim.evicting(model, policy, **PREFILL, prompt_length=ids.shape[1] - 1) as cache,
    ):
        output = model(ids[:, :-1], use_cache=True)
        for _ in range(5):
            cached = cache_argument(model, returned_cache(output))
            output = model(ids[:, -1:], use_cache=True, **cached)
            ids = torch.cat([ids, output.logits[:, -1:].argmax(-1)], 1)
    expected = tokenizer.decode(ids[0, -5:], skip_special_tokens=True)
    assert cache.takes_single_steps == (policy == "spatten")
    (found,) = generated(lm, [(context, dict(until=["~"], max_gen_toks=5))])
    assert found == expected
    (stopped,) = generated(lm, [(context, dict(until=[expected[-2:]], max_gen_toks=5))])
    assert stopped == expected[: expected.index(expected[-2:])]
    first = found[: found.index(">") + 1]
    ((_, is_greedy),) = scores(lm, [(context, first)])
    assert is_greedy and first != QUESTIONS[0]["choices"][QUESTIONS[0]["answer"]]


@pytest.mark.parametrize("options", [PREFILL, dict(budget=24)], ids=["prefill", "stream"])
def test_no_answer_depends_on_the_batch_or_the_order(options, evicting_lm):
    lm = evicting_lm(policy="random", **options)
    with pytest.warns(kvsim.KvsimWarning, match="batch_size 4: .* one request at a time"):
        other = evicting_lm(policy="random", **options, batch_size=4)
    arguments = [*pairs("")[:4], *pairs()[4:8]]
    found = scores(lm, arguments)
    assert scores(other, arguments[::-1]) == found[::-1]
    assert [scores(lm, [each])[0] for each in arguments] == found
    contexts = [(asked(each), dict(until=["\n"], max_gen_toks=4)) for each in QUESTIONS]
    assert generated(other, contexts[::-1]) == generated(lm, contexts)[::-1]
    assert scores(evicting_lm(policy="random", **options, seed=7), arguments) != found


def test_choices_of_one_token_are_read_once(evicting_lm):
    lm, read = evicting_lm(policy="h2o", **PREFILL), []
    hook = lm.model.register_forward_pre_hook(
        lambda model, args, kwargs: read.append(kwargs["input_ids"].shape), with_kwargs=True
    )
    scores(lm, pairs("")[:4])
    hook.remove()
    assert len([shape for shape in read if shape[1] > 32]) == 1  # the others probe the model


def test_a_text_without_a_context_is_read_in_stream_mode_alone(loaded, evicting_lm):
    lm, text = evicting_lm(policy="h2o", budget=12), QUESTIONS[0]["context"]

    def expected(tokens):
        ids = torch.tensor([[lm.prefix_token_id, *tokens]])
        with torch.no_grad(), kvsim.evicting(loaded[0], "h2o", 12):
            logarithms = loaded[0](ids).logits[0, :-1].log_softmax(-1)
        sum_of_all = logarithms.gather(1, ids[0, 1:, None]).sum().item()
        return pytest.approx(sum_of_all, abs=1e-3)

    rolling = requests("loglikelihood_rolling", (text,))
    found = lm.loglikelihood_rolling(rolling, disable_tqdm=True)
    assert found == [expected(lm.tok_encode(text))]
    found = likelihoods(scores(lm, [("", text)]))
    assert found == [expected(lm.tok_encode(text, add_special_tokens=False))]
    lm = evicting_lm(policy="h2o", **PREFILL)
    for run in (
        lambda: lm.loglikelihood_rolling(rolling, disable_tqdm=True),
        lambda: scores(lm, [("", text)]),
        lambda: generated(lm, [("", dict(until=["\n"], max_gen_toks=4))]),
    ):
        with pytest.raises(kvsim.UsageError, match="mode=prefill: expected a context of two or"):
            run()


def test_a_context_that_is_too_long_loses_its_beginning_with_a_warning(evicting_lm):
    lm = evicting_lm(policy="h2o", **PREFILL, max_length=48)
    context, choice = pairs()[0]
    with pytest.warns(kvsim.KvsimWarning, match=r"exceed the 48 .* the first \d+ are left out"):
        found = scores(lm, [(context, choice)])
        kept = lm.tokenizer.decode(lm.tok_encode(context + choice)[-49:])
        assert scores(lm, [(kept.removesuffix(choice), choice)]) == found


class Newest(kvsim.Policy):
    """Keeps the newest tokens, as `window` does."""

    name: ClassVar[str] = "newest-of-lm-eval"

    def update(self, step, scores):
        scores[...] = step.tokens


def test_a_policy_may_be_a_class(evicting_lm):
    lm = evicting_lm(policy=Newest, **PREFILL)
    assert scores(lm, pairs()[:4]) == scores(evicting_lm(policy="window", **PREFILL), pairs()[:4])
    assert lm.get_model_info()["kvsim"]["policy"] == "newest-of-lm-eval"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("policy=h2o,budget=20%", "budget 20%: in stream mode the length of the text is not known"),
        ("policy=h2o", "budget: expected tokens, or with mode=prefill a share .* found none"),
        ("budget=8", "policy: expected a policy, .* found none; name it in model_args"),
        ("policy=windw,budget=8", "unknown policy 'windw'; did you mean 'window'"),
        ("polcy=h2o,budget=8", "found polcy; did you mean policy"),
        ("policy=h2o,budget=8,mode=prefil", "mode: expected stream|prefill, found 'prefil'"),
        ("policy=h2o,budget=8,drop=3", "drop: expected true or false, found 3"),
        ("policy=h2o,budget=8,prompt_length=4", "prompt_length: each request of lm-eval has"),
        ("policy=h2o:recent=0.5,score=sum,budget=8", "takes one of the others: .*'score'"),
        ("policy=optimal,budget=8", "optimal"),
        ("policy=h2o,budget=8,eviction_interval=never", "never"),
    ],
)
def test_arguments_that_do_not_fit(arguments, reason, data):
    with pytest.raises(kvsim.UsageError, match=reason) as raised:
        evaluated("kvsim", [task(data)], model_args=f"pretrained={MODEL},device=cpu,{arguments}")
    assert "\n" not in str(raised.value)


def test_a_loaded_model_takes_no_arguments_of_its_constructor(evicting_lm):
    with pytest.raises(
        kvsim.UsageError, match=r"attn_implementation: neither .* is loaded already"
    ):
        evicting_lm(policy="h2o", budget=8, attn_implementation="eager")


def run_command(monkeypatch, folder, arguments):
    """`python -m kvsim.lm_eval` on the task of this folder, without the thousands of lm-eval."""
    path = folder / "task.yaml"
    path.write_text(json.dumps(task(folder)))
    few = partial(lm_eval.tasks.TaskManager, include_defaults=False)
    monkeypatch.setattr(lm_eval.tasks, "TaskManager", few)
    words = ["lm-eval", "--model", "kvsim", "--tasks", "multiple_choice", "--include_path",
             str(folder), "--model_args", arguments]  # fmt: skip
    monkeypatch.setattr(sys, "argv", words)
    return main()


def test_the_command_is_that_of_lm_eval(monkeypatch, data, capsys):
    policy = "h2o:recent=0.5,score=sum"
    given = {"pretrained": MODEL, "policy": policy, "budget": "20%", "mode": "prefill"}
    assert run_command(monkeypatch, data, json.dumps(given)) == 0
    shown = capsys.readouterr().out
    assert policy in shown and "|multiple_choice|" in shown
    quoted = f"pretrained={MODEL},policy='{policy}',budget=20%,mode=prefill"
    assert run_command(monkeypatch, data, quoted) == 0
    assert capsys.readouterr().out.replace("\r", "") == shown


def test_the_command_refuses_in_one_line(monkeypatch, data, capfd):
    assert run_command(monkeypatch, data, f"pretrained={MODEL},policy=h2o,budget=20%") == 2
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("kvsim: error: budget 20%: in stream mode")
