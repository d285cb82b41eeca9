"""kvsim.tune on a folder that has a search, or a part of one."""

import numpy as np
import pytest

import kvsim

pytest.importorskip("optuna")
from tune_support import tuned


def test_the_same_seed_finds_the_same_where_the_search_was_interrupted(tmp_path, monkeypatch):
    from kvsim.tune import search

    monkeypatch.setattr(search, "BATCH", 2)
    tell, calls = search._tell, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        tell(*arguments)

    whole = tuned(2, seed=3, trials=4)
    monkeypatch.setattr(search, "_tell", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tuned(2, seed=3, trials=4, output=tmp_path / "parts")
    monkeypatch.setattr(search, "_tell", tell)
    parts = tuned(2, seed=3, trials=4, output=tmp_path / "parts")
    assert parts.ranked.policy.tolist() == whole.ranked.policy.tolist()


def test_a_batch_that_was_told_in_part_is_told_to_its_end(tmp_path, monkeypatch):
    import optuna

    from kvsim.tune import search

    monkeypatch.setattr(search, "BATCH", 12)
    tell, told = optuna.Study.tell, []

    def once(study, *arguments, **options):
        if told:
            raise KeyboardInterrupt
        told.append(tell(study, *arguments, **options))

    how = {"seed": 3, "trials": 24}
    whole = tuned(2, **how)
    monkeypatch.setattr(optuna.Study, "tell", once)
    with pytest.raises(KeyboardInterrupt):
        tuned(2, output=tmp_path, **how)
    monkeypatch.setattr(optuna.Study, "tell", tell)
    assert tuned(2, output=tmp_path, **how).ranked.equals(whole.ranked)


def test_of_more_trials_than_are_asked_for_the_first_ones_count(tmp_path):
    few = tuned(2, trials=4)
    many = tuned(2, trials=12, output=tmp_path)
    again = tuned(2, trials=4, output=tmp_path)
    assert again.ranked.policy.tolist() == few.ranked.policy.tolist()
    assert f"{again.tried} different spec" in again.summary()
    assert again.tried == few.tried <= 4 < many.tried


def asked_for(monkeypatch, **options):
    """How many specs a call asks for."""
    from kvsim.tune import search

    asked, ask = [], search._asked
    monkeypatch.setattr(search, "_asked", lambda *each: asked.append(each) or ask(*each))
    tuned(2, **options)
    monkeypatch.setattr(search, "_asked", ask)
    return len(asked)


def test_a_search_goes_on_until_a_file_of_its_space_has_changed(tmp_path, monkeypatch):
    weights = tmp_path / "w.npy"
    how = {"space": f"lru;@file:{weights}", "output": tmp_path / "out"}
    np.save(weights, np.array([[1.0, 3.0]]))
    assert asked_for(monkeypatch, eviction_interval=1, **how) == 2
    assert asked_for(monkeypatch, eviction_interval="1", **how) == 0
    np.save(weights, np.array([[3.0, 1.0]]))
    assert asked_for(monkeypatch, **how) == 2


def test_a_small_space_is_tried_as_a_whole_after_a_part_of_it_too(tmp_path):
    tuned(2, space="sink:sinks={1..3};lru", trials=2, output=tmp_path)
    found = tuned(2, space="sink:sinks={1..3};lru", trials=50, output=tmp_path)
    tried = set(found.ranked.policy) - {"window"}
    assert {f"sink:sinks={sinks},positions=text" for sinks in (1, 2, 3)} < tried


def test_a_damaged_trace_is_an_error_and_no_trial_without_a_result(tmp_path, monkeypatch):
    from kvsim.tune import open_loop

    sweep, calls = open_loop.sweep, []

    def damaged(*arguments, **options):
        calls.append(1)
        if len(calls) > 2:  # after the defaults, on both texts
            raise kvsim.DataError("trace.h5: damaged")
        return sweep(*arguments, **options)

    how = {"space": "lru;tova", "output": tmp_path}
    with monkeypatch.context() as patch:
        patch.setattr(open_loop, "sweep", damaged)
        with pytest.raises(kvsim.DataError, match="damaged"):
            tuned(2, **how)
    assert tuned(2, **how).tried == 2


def test_a_log_that_is_none_is_one_line(tmp_path):
    (tmp_path / "search.log").write_text("nothing\n")
    with pytest.raises(kvsim.KvsimError, match=r"search\.log"):
        tuned(output=tmp_path)
