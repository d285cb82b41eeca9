"""kvsim.evaluate: what it keeps in a result file, and makes again."""

import numpy as np
import pytest
import torch

import kvsim
from kvsim.closed_loop import imposed
from record_zoo import build, letters, tokens

LENGTH = 30


def evaluate(model, texts, policies="window;tova", budgets="6", **options):
    return kvsim.evaluate(model, texts, policies, budgets, progress=False, **options)


@pytest.fixture
def passes(monkeypatch):
    """The number of configurations in each forward pass that is imposed on."""
    found = []
    forward = imposed.forward

    def counted(model, ids, batch, most_bytes):
        found.append(len(batch))
        return forward(model, ids, batch, most_bytes)

    monkeypatch.setattr(imposed, "forward", counted)
    return found


def test_a_row_has_its_key_and_where_it_comes_from(tmp_path):
    model, ids = build("llama"), tokens(LENGTH)
    output = tmp_path / "results.sqlite"
    frame = evaluate(
        model, ids, "labelled=tova;window", "20%", output=output, names=["text"], seed=4
    )
    assert list(frame.policy) == ["tova:scope=head,score=cached", "window"]
    row = frame.iloc[0]
    key = ["sequence", "budget", "mode", "loop", "seed", "budget_request", "label"]
    assert row[key].tolist() == ["text", 6, "stream", "imposed", 4, "20%", "labelled"]
    assert frame.label.isna().tolist() == [False, True]
    assert row.device == "cpu" and row.model == "LlamaForCausalLM"
    assert frame.attrs["about"]["kl_mean"]
    loaded = kvsim.load(output).closed_loop
    assert loaded.kl_mean.tolist() == frame.kl_mean.tolist()
    runs = kvsim.load(output).run.set_index("run_id")
    assert runs.loc[row.run_id, "rows_written"] == 4  # a row and its kind, of two policies
    assert "kvsim.evaluate('LlamaForCausalLM', ['text'], policies=" in runs.loc[row.run_id].command


def test_rows_that_are_there_are_not_made_again(tmp_path, passes):
    model, ids = build("llama"), tokens(LENGTH)
    output = tmp_path / "results.sqlite"
    first = evaluate(model, ids, output=output)
    assert passes == [1, 1]
    again = evaluate(model, ids, "window;tova;h2o", output=output)
    assert passes == [1, 1, 1] and len(again) == 3
    assert list(again[again.policy.isin(first.policy)].run_id) == list(first.run_id)
    assert list(evaluate(model, ids, "window", output=output).policy) == ["window"]
    assert passes == [1, 1, 1]
    evaluate(model, tokens(LENGTH, seed=1), "window", output=output)
    other = build("llama", hidden_act="relu")
    with torch.no_grad():
        other.lm_head.weight *= 2
    evaluate(other, ids, "window", output=output)
    assert passes == [1] * 5
    assert len(kvsim.load(output).closed_loop) == 5


def test_a_row_of_another_prompt_or_other_spans_is_made_again(tmp_path):
    model, ids = build("llama"), tokens(LENGTH)
    output = tmp_path / "results.sqlite"

    def measured(prompt_length, where):
        how = dict(prompt_length=prompt_length, mode="prefill", output=where)
        return evaluate(model, ids, "tova", **how).iloc[0]

    first, other = measured(8, output), measured(20, output)
    assert (first.steps, other.steps) == (LENGTH - 8, LENGTH - 20)
    assert other.kl_mean == measured(20, None).kl_mean != first.kl_mean
    # The prompt's length is a part of what the trace_id names.
    assert sorted(kvsim.load(output).replay.steps.unique()) == [LENGTH - 20, LENGTH - 8]

    tokenizer = letters()
    text = {"text": "the ships wait", "name": "text"}
    labelled = {**text, "spans": [[4, 9, "answer"]]}
    counts = [
        evaluate(model, each, "window", tokenizer=tokenizer, output=output).answers.tolist()
        for each in (text, labelled, labelled)
    ]
    assert counts == [[0], [1], [1]]


def test_rows_bear_the_labels_and_budgets_of_the_call(tmp_path):
    model, ids = build("llama"), tokens(LENGTH)
    output = tmp_path / "results.sqlite"
    first = evaluate(model, ids, "tova", "6", output=output).iloc[0]
    again = evaluate(model, ids, "labelled=tova", "20%,6", output=output)
    assert again.run_id.tolist() == [first.run_id]
    assert again[["label", "budget_request"]].values.tolist() == [["labelled", "20%"]]


def test_force_makes_rows_again(tmp_path, passes):
    model, ids = build("llama"), tokens(LENGTH)
    output = tmp_path / "results.sqlite"
    first = evaluate(model, ids, "tova", output=output)
    again = evaluate(model, ids, "tova", output=output, force=True)
    assert passes == [1, 1]
    assert again.run_id.item() != first.run_id.item()
    commands = kvsim.load(output).run.command
    assert commands.str.startswith("kvsim.evaluate(").all()


def test_a_changed_class_is_run_again(tmp_path, passes):
    def policy(sign):
        class Changing(kvsim.Policy):
            name = "closed-loop-changing"
            factor = sign

            def update(self, step, scores):
                scores[:] = self.factor * np.asarray(step.tokens)

        return Changing

    model, ids = build("llama"), tokens(LENGTH)
    output = tmp_path / "results.sqlite"
    newest = evaluate(model, ids, policy(1), output=output)
    oldest = evaluate(model, ids, policy(-1), output=output)
    assert passes == [1, 1]
    assert newest.policy_code[0] != oldest.policy_code[0]
    assert newest.kl_mean[0] != oldest.kl_mean[0]
    assert kvsim.load(output).closed_loop.kl_mean.tolist() == oldest.kl_mean.tolist()


def test_what_is_finished_survives_an_interruption(tmp_path, monkeypatch, passes):
    model, ids = build("llama"), tokens(LENGTH)
    output = tmp_path / "results.sqlite"
    expected = evaluate(model, ids, "window;tova;h2o", "6,9")
    counted, made = imposed.forward, len(passes)

    def interrupted(*arguments):
        if len(passes) == made + 4:
            raise KeyboardInterrupt
        return counted(*arguments)

    monkeypatch.setattr(imposed, "forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluate(model, ids, "window;tova;h2o", "6,9", output=output)
    assert len(kvsim.load(output).closed_loop) == 4
    monkeypatch.setattr(imposed, "forward", counted)
    found = evaluate(model, ids, "window;tova;h2o", "6,9", output=output)
    assert len(passes) == made + 6
    assert found.kl_mean.tolist() == expected.kl_mean.tolist()


def test_progress_counts_rows_of_all_texts(tmp_path):
    model, said = build("llama"), []
    texts = [tokens(LENGTH)[0], tokens(20, seed=2)[0]]
    output = tmp_path / "results.sqlite"
    evaluate(model, texts[:1], "window", output=output)
    kvsim.evaluate(
        model, texts, "window;tova", 6, output=output, progress=lambda *now: said.append(now)
    )
    assert said[0] == (1, 4) and said[-1] == (4, 4)
    assert list(dict.fromkeys(said)) == [(done, 4) for done in (1, 2, 3, 4)]


def test_a_name_stands_for_one_text(tmp_path):
    model = build("llama")
    output = tmp_path / "results.sqlite"
    evaluate(model, tokens(LENGTH), "window", names=["text"], output=output)
    with pytest.raises(kvsim.UsageError, match=r"results\.sqlite: its sequence text has other tok"):
        evaluate(model, tokens(20), "window", names=["text"], output=output)
    evaluate(model, tokens(20), "window", names=["other"], output=output)


def test_a_trace_of_the_same_text_gives_its_name_and_prompt(tmp_path):
    model, ids = build("llama"), tokens(LENGTH)
    path = tmp_path / "t.h5"
    with kvsim.recording(model, path, dtype="float32", names=["story"], prompt_length=20):
        model(ids)
    frame = evaluate(model, ids, trace=path, mode="prefill")
    assert set(frame.sequence) == {"story"} and set(frame.steps) == {LENGTH - 20}
    assert set(frame.trace_id) == {kvsim.Trace(path).trace_id}
    for options, message in (
        (dict(names=["other"]), "it names the text story, expected other"),
        (dict(prompt_length=10), "story has a prompt of 20 tokens, expected 10"),
    ):
        with pytest.raises(kvsim.UsageError, match=message):
            evaluate(model, ids, trace=path, **options)
    with pytest.raises(kvsim.UsageError, match="none of its 1 sequences has the 12 tokens"):
        evaluate(model, ids[0, :12], trace=path)
    with pytest.raises(kvsim.UsageError, match="sequence story has other tokens than texts"):
        evaluate(model, ids[0, :12], trace=path, names=["story"])
    part = tmp_path / "part.h5"
    with kvsim.recording(model, part, layers=[0, 2]):
        model(ids)
    with pytest.raises(kvsim.UsageError, match="it lacks layer 1; record all layers"):
        evaluate(model, ids, trace=part)


def test_a_trace_of_another_model_is_refused(tmp_path):
    model, ids = build("llama"), tokens(LENGTH)
    with kvsim.recording(model, tmp_path / "t.h5", dtype="float16"):
        model(ids)
    halves = evaluate(model, ids, trace=tmp_path / "t.h5")
    assert (2 * halves.cache_bytes).tolist() == evaluate(model, ids).cache_bytes.tolist()
    with torch.no_grad():
        model.model.layers[1].self_attn.k_proj.weight *= 1.5
    with pytest.raises(kvsim.UsageError, match="trace: the keys of its layer 1 are not this mod"):
        evaluate(model, ids, trace=tmp_path / "t.h5")


def test_a_folder_is_loaded_with_its_tokenizer(tmp_path):
    model = build("llama")
    model.save_pretrained(tmp_path / "zoo")
    letters().save_pretrained(tmp_path / "zoo")
    text = "words to read, and some more."
    named = evaluate(str(tmp_path / "zoo"), text)
    loaded = evaluate(model, text, tokenizer=letters())
    np.testing.assert_allclose(named.kl_mean, loaded.kl_mean, rtol=1e-9)
    assert set(named.model) == {"zoo"} and set(named.model_id) == set(loaded.model_id)
