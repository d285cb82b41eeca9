"""lm-eval with a model that evicts: its scores are those of the closed loop at the same place."""

from contextlib import contextmanager
from functools import partial
from typing import ClassVar

import pytest
import torch
from lm_eval.models.huggingface import HFLM
from transformers import AutoModelForCausalLM, AutoTokenizer

import kvsim
import kvsim.lm_eval.model
from kvsim.lm_eval import EvictingLM
from kvsim.model.cache import cache_argument, returned_cache
from kvsim.tasks import multiple_choice
from lm_eval_support import (
    MODEL,
    PREFILL,
    QUESTIONS,
    REST,
    asked,
    evaluated,
    facts_in,
    generated,
    pairs,
    requests,
    scores,
    task,
)


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
    return facts_in(tmp_path_factory.mktemp("facts"))


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
    for question in QUESTIONS[:1]:
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
        found = evaluated(evicting_lm(policy=row["policy"], **PREFILL), [task(data)], limit=1)
        assert found["results"]["multiple_choice"]["acc,none"] == row["accuracy"]
        of_policy = rows[rows["policy"] == row["policy"]].set_index("sequence")
        assert (of_policy["nll"] - of_policy["nll_full"]).abs().min() > 0.01  # it matters
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


def test_what_a_policy_draws_is_the_contexts(evicting_lm, monkeypatch):
    kept, evicting = [], kvsim.evicting

    @contextmanager
    def watched(*arguments, **options):
        with evicting(*arguments, **options) as cache:
            yield cache
        kept.extend(each.tolist() for each in cache.kept(0, 0))

    lm = evicting_lm(policy="random", **PREFILL)
    monkeypatch.setattr(kvsim.lm_eval.model, "evicting", watched)
    ends = [lm.tok_encode(asked(each))[-80:] for each in QUESTIONS[:2]]
    contexts = [lm.tokenizer.decode(end) for end in ends]
    scores(lm, [(context, choice) for context in contexts for choice in ("ab", "cd")])
    assert len({len(each) for each in kept}) == 1
    assert kept[0] == kept[1] != kept[2] == kept[3]


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


def test_a_loaded_model_takes_no_arguments_of_its_constructor(evicting_lm):
    with pytest.raises(
        kvsim.UsageError, match=r"attn_implementation: neither .* is loaded already"
    ):
        evicting_lm(policy="h2o", budget=8, attn_implementation="eager")
