"""Questions asked of a cache that was compressed once, against plain forward passes."""

import json

import numpy as np
import pytest
import torch

import kvsim
import kvsim.tasks
from conftest import SAMPLE
from kvsim import Policy
from kvsim.closed_loop import evicting
from kvsim.model.cache import cache_argument, returned_cache
from kvsim.tasks.asking.dialogue import lines_of

RETRIEVER = SAMPLE.parent / "tiny-retriever"


class Newest(Policy):
    """A window with a state of its own, which nothing but its calls can bring back."""

    name = "newest-of-class"

    def __init__(self, budget, seed=0):
        self.seen = 0

    def update(self, step, scores):
        self.seen += 1
        scores[-1] = self.seen


@pytest.fixture(scope="module")
def loaded():
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(RETRIEVER, dtype=torch.float32).eval()
    return model, AutoTokenizer.from_pretrained(RETRIEVER)


def line(*asked, number=0, name="facts"):
    """A passage of the sample questions, and turns that ask for `asked`, its facts by place."""
    lines = (SAMPLE.parent / "questions.jsonl").read_text().splitlines()
    context = json.loads(lines[number])["context"]
    facts = [context[first - 1 :].split(">")[:2] for first in _facts(context)]
    text, spans = context, []
    for place in asked:
        key, value = (part + ">" for part in facts[place])
        begun = len(text)
        text += f"?{key}"
        spans += [[begun, len(text), "question"], [len(text), len(text) + 4, "answer"]]
        text += value
        spans.append([begun, len(text), "turn"])
    return {"name": name, "text": text, "spans": spans, "task": "river"}


def _facts(context):
    """Where the keys of facts begin: `<river><47>`, a key and its value."""
    places = [i for i, letter in enumerate(context) if letter == "<"]
    return [i + 1 for i in places if not context[i + 1].isdigit()]


def ids_of(loaded, text):
    return torch.tensor(loaded[1](text)["input_ids"])[None]


def evaluate(loaded, lines, policies, budgets=("40%",), **options):
    model, tokenizer = loaded
    return kvsim.tasks.evaluate(model, lines, policies, budgets, tokenizer=tokenizer, **options)


def of(frame, policy, turn=1):
    name = frame["policy"].str.split(r"[:+@]", regex=True).str[0]
    (row,) = frame[(name == policy) & (frame["turn"] == turn)].to_dict("records")
    return row


def by_hand(loaded, policy, budget, ids, prompt, end, most=4, **options):
    """log p of the tokens after `prompt`, and what follows the first `end` tokens, greedily."""
    model, tokenizer = loaded
    options |= {"mode": "prefill", "prompt_length": prompt}
    with evicting(model, policy, budget, **options), torch.no_grad():
        output = model(ids[:, :prompt], use_cache=True)
        more = model(ids[:, prompt:], use_cache=True,
                     **cache_argument(model, returned_cache(output)))  # fmt: skip
        log_p = torch.log_softmax(more.logits[0].double(), -1)
        output = model(ids[:, :prompt], use_cache=True)
        written, fed = [], ids[:, prompt:end]
        for _ in range(most):
            cache = cache_argument(model, returned_cache(output))
            output = model(fed, use_cache=True, **cache)
            fed = output.logits[:, -1:].argmax(-1)
            written.append(int(fed))
    return log_p, tokenizer.decode(written)


@pytest.mark.parametrize("policy", ["full", "h2o", "tova+quant:bits=8"])
@pytest.mark.parametrize("interval", [1, "never"])
def test_an_answer_is_that_of_a_model_that_evicts(loaded, policy, interval):
    asked = line(0)
    ids = ids_of(loaded, asked["text"])
    begun, end = ids.shape[1] - 3, ids.shape[1]  # `?`, a key, a value
    row = of(
        evaluate(loaded, [asked], policy, [40], generate=4, eviction_interval=interval),
        policy.partition("+")[0],
    )
    log_p, text = by_hand(
        loaded, policy, 40, ids, begun, end - 1, eviction_interval=interval
    )  # fmt: skip
    assert row["nll"] == pytest.approx(-float(log_p[1, ids[0, -1]]), abs=1e-5)
    assert row["answers_right"] == int(log_p[1].argmax() == ids[0, -1])
    assert row["generated"] == text and row["generated_tokens"] == 4
    assert (row["length"], row["answers"], row["in_view"]) == (begun, 1, 0)
    assert row["contains"] == float(asked["text"][-4:] in text)


def test_a_question_in_view_is_compressed_with_the_context(loaded):
    asked = line(1, 0)
    context = asked["text"][: asked["spans"][2][0]]
    first, second = (asked["text"][slice(*asked["spans"][i][:2])] for i in (0, 3))
    value = asked["text"][slice(*asked["spans"][4][:2])]
    for question, seen in (("after", context + first), ("before", f"{first}\n\n{context}")):
        frame = evaluate(loaded, [asked], "h2o", [40], question=question)
        rows = [of(frame, "h2o", turn) for turn in (1, 2)]
        assert [row["in_view"] for row in rows] == [1, 0]
        prompt = ids_of(loaded, seen).shape[1]
        if question == "after":
            prompt -= 1  # of the question itself one token is left to answer from
        ids = ids_of(loaded, (seen[:-len(first)] + first if question == "after" else seen)
                     + second + value)  # fmt: skip
        if question == "after":
            ids = torch.cat([ids[:, :prompt], ids[:, prompt + 1 :]], 1)
        log_p, _ = by_hand(loaded, "h2o", 40, ids, prompt, prompt + 1, most=1)
        assert rows[1]["nll"] == pytest.approx(-float(log_p[-2, ids[0, -1]]), abs=1e-5)
        assert rows[0]["length"] == prompt


def test_the_cache_goes_on_through_turns(loaded):
    asked = line(0, 1, 0)
    ids = ids_of(loaded, asked["text"])
    frame = evaluate(loaded, [asked], "h2o", [40], question="turns", generate=2)
    log_p, _ = by_hand(loaded, "h2o", 40, ids, ids.shape[1] - 9, ids.shape[1] - 8)
    for turn in (1, 2, 3):
        token = ids[0, -10 + 3 * turn]
        expected = -float(log_p[3 * turn - 2, token])
        assert of(frame, "h2o", turn)["nll"] == pytest.approx(expected, abs=1e-5)
    (alone,) = lines_of([asked], "turns")
    assert alone["text"] == asked["text"]


@pytest.mark.filterwarnings("ignore::kvsim.KvsimWarning")
@pytest.mark.parametrize("interval", [1, "never"])
def test_every_policy_answers_a_question_alike_whenever_it_is_asked(loaded, interval):
    lines = [line(1, 0, 1, name="twice")]
    policies = ["all", Newest, "h2o+shared", "tova+rest"]
    frame = evaluate(loaded, lines, policies, [40], generate=2, eviction_interval=interval)
    same = ["nll", "generated", "answers_right", "contains", "peak_tokens", "cache_bytes"]
    first, _, third = (frame[frame["turn"] == turn][same].reset_index(drop=True)
                       for turn in (1, 2, 3))  # fmt: skip
    np.testing.assert_allclose(first["nll"], third["nll"], atol=1e-6)
    assert first.drop(columns="nll").equals(third.drop(columns="nll"))
    assert frame["policy"].nunique() >= 20


def test_a_configuration_alone_answers_as_in_a_batch(loaded):
    policies = ["h2o", "window", "spatten", "random+protect"]
    together = evaluate(loaded, [line(0)], policies, ["40%", "20%"], generate=3)
    for policy in policies:
        alone = evaluate(loaded, [line(0)], policy, ["20%"], generate=3)
        name = policy.partition("+")[0]
        row = of(alone, name)
        (other,) = [
            each for each in together.to_dict("records")
            if each["policy"] == row["policy"] and each["budget"] == row["budget"]
        ]  # fmt: skip
        assert other["nll"] == pytest.approx(row["nll"], abs=1e-5)
        assert other["generated"] == row["generated"]


def test_rows_are_made_again_only_where_something_changed(loaded, tmp_path, monkeypatch):
    from kvsim.tasks.asking import run

    asked, made = run.ask, []

    def counted(model, tokenizer, dialogue, plans, *rest):
        made.extend(plans)
        return asked(model, tokenizer, dialogue, plans, *rest)

    monkeypatch.setattr(run, "ask", counted)
    options = {"output": tmp_path / "r.sqlite"}

    def count(lines, policies, **more):
        made.clear()
        frame = evaluate(loaded, lines, policies, ["20%", "40%"], **options, **more)
        return len(made), len(frame)

    lines = [line(0), line(0, number=1, name="other")]
    assert count(lines, "h2o") == (2 * 3, 2 * 4)  # the full cache answers once for both budgets
    assert count(lines, "h2o") == (0, 8)
    assert count(lines, "h2o;window") == (2 * 2, 2 * 6)
    assert count(lines, "h2o", generate=2) == (2 * 3, 8)
    assert count(lines, "h2o", generate=2, stop=["x"]) == (2 * 3, 8)
    assert count(lines, "h2o", question="after") == (2 * 3, 8)
    assert count(lines[:1], "h2o", force=True) == (3, 4)
    # What a text says of itself counts, too; texts that were written stay where none are asked for.
    assert count([line(0) | {"task": "stream"}], "h2o") == (3, 4)
    assert count([line(0) | {"task": "stream", "depth": 0.5}], "h2o") == (3, 4)
    fewer = line(0) | {"task": "stream", "depth": 0.5}
    fewer["spans"][0][1] = fewer["spans"][0][0] + 1  # of the question the first token alone
    assert count([fewer], "h2o") == (3, 4)
    written = kvsim.load(options["output"])["task_answer"].query("most_tokens == 2")
    assert len(written) == 8 and written["generated"].notna().all()
    with pytest.raises(kvsim.UsageError, match="sequence other has other tokens than"):
        count([line(1, number=2, name="other")], "h2o")
    kvsim.check(options["output"])
    stored = kvsim.load(options["output"])["task_answer"]
    assert set(stored["question"]) == {"unseen", "after"}


@pytest.mark.parametrize(
    "change, message",
    [
        ({"spans": []}, "facts: expected spans labelled turn"),
        ({"spans": [[10, 20, "turn"]]}, "facts: turn 1: expected a span labelled answer in it"),
        ({"spans": [[0, 9, "turn"], [5, 9, "answer"]]}, "expected a context before its first turn"),
        ({"spans": [["a", 9, "turn"]]}, "facts: spans: expected \\[first character, end, label\\]"),
        ({"depth": 2}, "facts: depth: expected 0 to 1, found 2"),
        ({"length": 0}, "facts: length: expected 1 or more tokens, found 0"),
        ({"task": 3}, "facts: task: expected a text, found 3"),
    ],
)
def test_what_is_no_task_is_refused_in_a_line(loaded, change, message):
    with pytest.raises(kvsim.DataError, match=message):
        evaluate(loaded, [line(0) | change], "h2o")


def test_bad_arguments_are_refused_in_a_line(loaded):
    for options, message in (
        ({"question": "later"}, "question: expected unseen, after, before, turns, found 'later'"),
        ({"generate": -1}, "generate: expected 0 or more tokens, found -1"),
        ({"stop": "x"}, "stop: expected a list of texts"),
        ({"stop": [""]}, "stop: expected texts that are not empty"),
    ):
        with pytest.raises(kvsim.UsageError, match=message):
            evaluate(loaded, [line(0)], "h2o", **options)
    with pytest.raises(kvsim.UsageError, match="texts: expected a list of dicts, found a str"):
        evaluate(loaded, "facts.jsonl", "h2o")
    with pytest.raises(kvsim.UsageError, match="does not run optimal"):
        evaluate(loaded, [line(0)], "optimal")
