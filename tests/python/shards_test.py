"""`shard` in Python: the shares of the program, and where there are none."""

import pytest

import kvsim
from conftest import write_trace

WHOLE = {"run_id", "trace", "device"}


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "t.h5"
    write_trace(path)
    return path


def rows_of(frame):
    return set(map(tuple, frame.drop(columns=list(WHOLE & set(frame))).astype(str).to_numpy()))


def of_program(program, tmp_path, table, *arguments, shard):
    output = tmp_path / f"{table}-{shard[0]}.sqlite"
    program(*arguments, "-o", output, "--shard", shard, "-q", cwd=tmp_path)
    return kvsim.load(output)


@pytest.mark.parametrize("shard", ["1/3", "2/3", "3/3"])
def test_shards_are_those_of_the_program(trace, tmp_path, program, shard):
    policies = "window;tova:scope=layer"
    found = kvsim.sweep(trace, policies, 6, shard=shard, output=tmp_path / "p.sqlite")
    expected = of_program(
        program, tmp_path, "sweep", "sweep", trace, "--policies", policies, "--budgets", "6",
        shard=shard,
    )  # fmt: skip
    assert rows_of(found) == rows_of(expected.replay)
    own, theirs = kvsim.load(tmp_path / "p.sqlite").run.iloc[0], expected.run.iloc[0]
    assert (own.shard, own.study, own.finished) == (theirs.shard, theirs.study, theirs.finished)
    assert own.shard == shard and own.finished == 1

    curve = kvsim.curve(trace, "window", shard=shard)
    expected = of_program(
        program, tmp_path, "curve", "curve", trace, "--policies", "window", shard=shard
    )
    assert rows_of(curve) == rows_of(expected.curve)

    tables = kvsim.analyze(trace, "sparsity", shard=shard)
    expected = of_program(
        program, tmp_path, "analyze", "analyze", trace, "--what", "sparsity", shard=shard
    )
    assert rows_of(tables["sparsity"]) == rows_of(expected.sparsity)


def test_the_shards_of_a_sweep_are_all_of_it_by_executors_too(trace):
    from concurrent.futures import ThreadPoolExecutor

    whole = kvsim.sweep(trace, "window;h2o", ["6", "20%"])
    with ThreadPoolExecutor(1) as executor:
        parts = [
            kvsim.sweep(trace, "window;h2o", ["6", "20%"], shard=f"{i}/3", executor=executor)
            for i in (1, 2, 3)
        ]
    found = [row for part in parts for row in rows_of(part)]
    assert len(found) == len(whole) and set(found) == rows_of(whole)


def test_a_shard_without_work_is_an_empty_frame_and_a_warning(trace, tmp_path):
    output = tmp_path / "r.sqlite"
    with pytest.warns(kvsim.KvsimWarning, match="shard 99/99: nothing to do"):
        frame = kvsim.sweep(trace, "window", 6, shard="99/99", output=output)
    assert len(frame) == 0 and "attention_recall" in frame
    with pytest.warns(kvsim.KvsimWarning, match="nothing to do"):
        assert len(kvsim.curve(trace, "window", shard="99/99")) == 0
    with pytest.warns(kvsim.KvsimWarning, match="nothing to do"):
        assert len(kvsim.analyze(trace, "sparsity", shard="99/99")["sparsity"]) == 0
    (run,) = kvsim.load(output).run.itertuples()
    assert run.shard == "99/99" and run.finished == 1 and len(kvsim.load(output).replay) == 0


@pytest.mark.parametrize("shard", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3", "1/3x"])
def test_what_is_no_share_is_refused(trace, shard):
    for call in (
        lambda: kvsim.sweep(trace, "window", 6, shard=shard),
        lambda: kvsim.curve(trace, "window", shard=shard),
        lambda: kvsim.analyze(trace, "sparsity", shard=shard),
    ):
        with pytest.raises(kvsim.UsageError, match="expected I/N, as in 3/16"):
            call()


@pytest.mark.parametrize("option", [{"shard": "1/3"}, {"scratch": "local"}])
def test_a_replay_and_labels_have_no_shards_and_no_result_file(trace, option):
    unit = {"sequence": None, "layer": 0, "kv_head": 0}
    says = f"there is no option {next(iter(option))} here"
    with pytest.raises(kvsim.UsageError, match=says):
        kvsim.replay(trace, "window", 6, **unit, **option)
    with pytest.raises(kvsim.UsageError, match=says):
        kvsim.labels(trace, 6, **option)
