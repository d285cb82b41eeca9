"""kvsim.evaluate on one machine of several: whole texts, partitioned by their estimated cost."""

import json

import pytest

import kvsim
from kvsim.closed_loop.cli import main
from record_zoo import build, letters, tokens

LENGTHS = (30, 22, 26, 18)


def evaluate(model, shard, output=None, policies="window;tova", texts=None, **options):
    texts = [tokens(length)[0] for length in LENGTHS] if texts is None else texts
    names = [f"text {index}" for index in range(len(texts))]
    return kvsim.evaluate(
        model, texts, policies, "6", names=names, shard=shard, output=output, progress=False,
        **options,
    )  # fmt: skip


@pytest.mark.parametrize("count", [2, 3])
def test_shards_are_whole_texts_each_once_and_make_the_same_rows(tmp_path, count):
    model = build("llama")
    whole = evaluate(model, "1/1")
    columns = ["sequence", "policy", "kl_mean", "nll"]
    found, studies = [], set()
    for index in range(1, count + 1):
        output = tmp_path / f"part{index}.sqlite"
        part = evaluate(model, f"{index}/{count}", output)
        found += list(map(tuple, part[columns].to_numpy()))
        runs = kvsim.load(output).run
        (run,) = runs[runs.shard.notna()].itertuples()
        assert run.shard == f"{index}/{count}" and run.finished == 1
        studies.add(run.study)
    assert sorted(found) == sorted(map(tuple, whole[columns].to_numpy()))
    assert len(studies) == 1


def test_the_longest_text_goes_first_and_shards_are_even():
    model = build("llama")
    parts = [set(evaluate(model, f"{index}/2", policies="window").sequence) for index in (1, 2)]
    assert parts == [{"text 0", "text 3"}, {"text 1", "text 2"}]


def test_a_study_names_the_work(tmp_path):
    model = build("llama")

    def study(shard="1/2", **options):
        output = tmp_path / "r.sqlite"
        output.unlink(missing_ok=True)
        evaluate(model, shard, output, **options)
        runs = kvsim.load(output).run
        return runs[runs.shard.notna()].study.iloc[0]

    own = study()
    assert len(own) == 16 and study("2/2") == own
    others = {
        study(policies="window"), study(seed=1), study("1/3"),
        study(texts=[tokens(length, seed=1)[0] for length in LENGTHS]),
    }  # fmt: skip
    assert len(others) == 4 and own not in others


def test_a_shard_without_texts_leaves_a_file_that_says_so(tmp_path):
    output = tmp_path / "r.sqlite"
    with pytest.warns(kvsim.KvsimWarning, match="shard 5/5: nothing to do"):
        frame = evaluate(build("llama"), "5/5", output)
    assert len(frame) == 0 and "kl_mean" in frame
    (run,) = kvsim.load(output).run.itertuples()
    assert run.shard == "5/5" and run.finished == 1


@pytest.mark.parametrize("shard", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3", "1/3x"])
def test_what_is_no_share_is_refused(shard):
    with pytest.raises(kvsim.UsageError, match="expected I/N, as in 3/16"):
        evaluate(build("llama"), shard)


def test_the_command_line_says_its_share(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    build("llama").save_pretrained("zoo")
    letters().save_pretrained("zoo")
    lines = ["the words to read, and more.", "other words to read, and so on"]
    (tmp_path / "texts.jsonl").write_text("\n".join(map(json.dumps, lines)))
    command = ["zoo", "--texts", "texts.jsonl", "--policies", "window", "--budgets", "6"]
    assert main([*command, "--shard", "1/2", "-o", "r.sqlite"]) == 0
    said = capsys.readouterr()
    assert "kvsim: shard 1/2: 1 of 2 texts, about 5" in said.err
    assert said.out == "shard 1/2: 1 text in r.sqlite; kvsim merge joins the parts\n"
    assert main([*command, "--shard", "01/1", "-o", "r.sqlite"]) == 0
    said = capsys.readouterr()
    assert "shard" not in said.out + said.err
    assert main([*command, "--shard", "1/2"]) == 2
    assert "expected --output" in capsys.readouterr().err
    assert main([*command, "--shard", "3/2", "-o", "r.sqlite"]) == 2
    said = capsys.readouterr().err
    assert "--shard: expected I/N" in said and said.count("kvsim: error") == 1
