"""What a sweep would reach on many workers, from its plan."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import kvsim
from conftest import SAMPLE
from kvsim.scale.__main__ import main
from kvsim.scale.conditions import Conditions, Overhead
from kvsim.scale.run import dealt
from kvsim.scale.schedule import with_executor, with_shards
from kvsim.scale.work import planned_work

FORTY = (["window", "h2o", "lru", "lfu", "tova", "snapkv:window=4", "knorm", "keydiff"],
         ["10%", "20%", "30%", "40%", "50%"])  # fmt: skip
MIXED = "window;h2o;tova:scope=layer;spatten;h2o@persistence"


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """As many layers and heads as Llama-3-8B; what a unit takes is said beside."""
    path = tmp_path_factory.mktemp("plan") / "plan.h5"
    kvsim.synth(path, tokens=64, layers=32, query_heads=32, kv_heads=8, head_dim=8)
    return path


def work_of(policies=MIXED, budgets="9,20%", **options):
    return planned_work([kvsim.Trace(SAMPLE)._opened], policies, budgets, options)


def test_a_plan_has_the_rows_of_the_sweep():
    chosen = {"sequences": ["held-out-text"], "layers": "0-1"}
    frame = kvsim.sweep(SAMPLE, MIXED.split(";"), [9, "20%"], **chosen)
    work = work_of(**chosen)
    assert work.rows.sum() == len(frame)
    assert work.units == len(frame.groupby(["sequence", "layer", "kv_head"]))
    assert (work.nanoseconds > 0).all()


def test_texts_are_repeated_until_there_are_so_many_units():
    work = work_of("window", "9")
    assert set(work.width) == {4}  # layers, which this trace measures as a whole
    many = work.repeated(3 * work.units + 8)
    assert many.units == many.rows.sum() == 3 * work.units + 8
    assert many.seconds > 3 * work.seconds
    assert work.repeated(2 * work.units).seconds == pytest.approx(2 * work.seconds)
    assert work.at_unit_seconds(7.0).seconds == pytest.approx(7 * work.units)


def test_small_items_come_first_as_in_a_plan():
    width = work_of().repeated(1000).width
    assert len(set(width)) > 1 and (np.diff(width) >= 0).all()


def test_the_executor_sends_the_tasks_of_the_model_in_its_order(monkeypatch):
    work = work_of()
    monkeypatch.setattr(kvsim.executors.run, "TASK_SECONDS", work.seconds / 12)
    tasks = work.tasks()
    sent = []

    def slow(function, *arguments):
        time.sleep(0.001)
        return function(*arguments)

    class Recording(ThreadPoolExecutor):
        def submit(self, function, *arguments):
            parts = arguments[2]
            sent.append(sum(len(replays) for *_, units in parts for *_, replays in units))
            return super().submit(slow, function, *arguments)

    with Recording(2) as threads:
        frame = kvsim.sweep(SAMPLE, MIXED.split(";"), [9, "20%"], executor=threads)
    assert 6 < len(tasks) < len(work.rows)
    assert sent == tasks.rows.tolist()
    assert sum(sent) == len(frame)
    assert tasks.seconds.sum() == pytest.approx(work.seconds)
    assert (np.diff(tasks.seconds) <= 0).all()


def study_of(plan):
    """100,000 units as of Llama-3-8B with forty configurations."""
    policies, budgets = FORTY
    work = planned_work([kvsim.Trace(plan)._opened], ";".join(policies), ",".join(budgets), {})
    return work.repeated(100_000).at_unit_seconds(6.1)


def test_100_000_units_keep_1024_workers_busy(llama):
    study = study_of(llama)
    assert study.rows.sum() == 100_000 * 40
    ideal = 100_000 * 6.1 / 1024
    executor = with_executor(study.tasks(), 1024, Conditions(startup=5))
    items = study.items()
    shards = with_shards(items, dealt(items, 1024), 1024, 1, Conditions(startup=5))
    assert ideal / 0.9 > executor.makespan > ideal
    assert ideal / 0.9 > shards.makespan > ideal


def test_slow_commits_keep_few_waiting_as_each_is_for_all_that_came(llama):
    slow = Conditions(overhead=Overhead(commit=0.05), startup=5)
    ideal = 100_000 * 6.1 / 1024
    assert with_executor(study_of(llama).tasks(), 1024, slow).makespan < ideal / 0.9


def test_what_makes_workers_worse_shows(llama):
    def efficiency(**conditions):
        return kvsim.scale(llama, "window", "10%", 64, unit_seconds=6.1, **conditions).efficiency

    plain = efficiency()
    for worse in (
        {"startup": 10.0}, {"stragglers": (0.1, 2.0)}, {"deaths": 0.01, "startup": 1.0},
        {"overhead": {"plan": 0.01}},
    ):  # fmt: skip
        assert (efficiency(**worse) < plain).all(), worse


def test_shards_may_have_several_threads(llama):
    given = {"workers": 64, "unit_seconds": 1.0, "overhead": {"plan": 0, "commit": 0, "store": 0}}
    one, sixteen = (
        kvsim.scale(llama, "window", "10%", **given, shard_threads=n).iloc[1] for n in (1, 16)
    )
    assert one.makespan == sixteen.makespan == pytest.approx(4)  # 256 units


def test_the_same_seed_gives_the_same_bytes(llama, capsys):
    def printed(seed, form="json"):
        arguments = [str(llama), "--policies", "window", "--budgets", "10%", "--workers", "7,64",
                     "--unit-seconds", "9", "--stragglers", "0.2,3", "--deaths", "0.1",
                     "--startup", "2", "--seed", seed, "--format", form]  # fmt: skip
        assert main(arguments) == 0
        return capsys.readouterr().out

    assert printed("1") == printed("1")
    assert printed("1") != printed("2")
    assert printed("1", "csv").startswith("way,workers,tasks,makespan,efficiency,limit,")
    assert "without it" in printed("1", "table")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"workers": []}, "workers: expected"),
        ({"workers": 0}, "workers: expected 1 or more, found 0"),
        ({"units": 0}, "units: expected"),
        ({"unit_seconds": 0.0}, "unit_seconds: expected"),
        ({"workers": 10, "shard_threads": 4}, "10 are not whole shards"),
        ({"overhead": {"stor": 1}}, "there is no 'stor'"),
        ({"stragglers": (2.0, 1.0)}, "stragglers"),
    ],
)
def test_what_cannot_be_is_refused(wrong, says):
    with pytest.raises(kvsim.UsageError, match=says):
        kvsim.scale(SAMPLE, "window", "9", **wrong)


def test_the_command_says_what_is_wrong_in_a_line(capsys):
    given = [str(SAMPLE), "--budgets", "9", "--policies"]
    assert main([*given, "nosuch"]) == 2
    for wrong in (["--stragglers", "1"], ["--overhead", "store"], ["--workers", "0"]):
        with pytest.raises(SystemExit, match="2"):
            main([*given, "window", *wrong])
    assert all(line.startswith("kvsim: error:") for line in capsys.readouterr().err.splitlines())
