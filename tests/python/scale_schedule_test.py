"""Schedules of the model: small ones by hand, and what must hold of all."""

from dataclasses import replace

import numpy as np
import pytest

from kvsim.errors import UsageError
from kvsim.scale.conditions import Conditions, Overhead
from kvsim.scale.limits import limit_of
from kvsim.scale.schedule import (
    Tasks,
    end_times,
    served,
    served_together,
    with_executor,
    with_shards,
)

NONE = Overhead(0, 0, 0, 0, 0, 0, 0)


def tasks(*seconds, rows=1):
    return Tasks(np.array(seconds, float), np.full(len(seconds), rows))


def conditions(overhead=NONE, **given):
    return Conditions(overhead=overhead, **given)


class Deaths:
    """Lives of workers, in the order in which they are asked for."""

    def __init__(self, *lives):
        self.lives = list(lives)

    def exponential(self, mean):
        return self.lives.pop(0) if self.lives else 1e9


def ends_of(work, slow, rng=None, ready=None, **given):
    ready = np.zeros(len(work)) if ready is None else np.array(ready, float)
    ends, repeated, given_up = end_times(work, ready, slow, conditions(**given), rng)
    return ends.tolist(), repeated, given_up


def limit(work, workers, **given):
    plan = lambda work, given: with_executor(work, workers, given)  # noqa: E731
    own = conditions(**given)
    return limit_of(plan, work, workers, own, plan(work, own).makespan)


def test_two_workers_take_three_tasks_as_they_are_free():
    assert ends_of(tasks(3, 2, 2), [1, 1]) == ([3, 2, 4], 0, 0)


def test_a_straggler_takes_longer_and_fewer():
    # The slow one ends its first task at 5, when the other is at its third.
    assert ends_of(tasks(2, 2, 2, 2), [2.5, 1]) == ([5, 2, 4, 6], 0, 0)


def test_a_task_waits_for_its_submission_and_for_the_start_of_a_worker():
    assert ends_of(tasks(1, 1), [1, 1], ready=[0, 9], startup=4) == ([5, 10], 0, 0)


def test_a_death_repeats_its_task_elsewhere():
    # Worker 0 dies at 2 in its task of 5; worker 1, free at 3, does that one.
    ends = ends_of(tasks(5, 3), [1, 1], Deaths(2, 1e9), life=1.0)
    assert ends == ([7, 3], 1, 0)  # worker 0 is back at 2, without start-up, and begins again


def test_after_a_death_a_worker_starts_up_anew():
    ends = ends_of(tasks(5, 3), [1, 1], Deaths(6, 1e9), life=1.0, startup=4)
    # Both start at 4. Worker 0 dies at 4 + 6 = 10, after its task; nothing is lost.
    assert ends == ([9, 7], 0, 0)
    ends = ends_of(tasks(5), [1], Deaths(2, 1e9), life=1.0, startup=4)
    assert ends == ([15], 1, 0)  # 4 + 2 lost, back at 10


def test_a_worker_that_dies_while_it_waits_loses_nothing():
    assert ends_of(tasks(1), [1], Deaths(2, 1e9), ready=[9], life=1.0) == ([10], 0, 0)


def test_a_task_that_died_three_times_is_given_up():
    assert ends_of(tasks(5), [1], Deaths(1, 1, 1, 1e9), life=1.0) == ([3], 2, 1)


def test_one_who_serves_keeps_the_rest_waiting():
    assert served(np.array([1.0, 1.0, 9.0]), np.array([2.0, 2.0, 2.0])) == 11
    assert served(np.array([1.0, 1.0, 2.0]), np.array([2.0, 2.0, 2.0])) == 7


def test_who_serves_all_that_have_come_pays_once_for_a_turn():
    arrivals, costs = np.array([4.0, 1.0, 1.5, 9.0]), np.array([0.5, 1.0, 2.0, 0.5])
    # From 1: the second, until 3. From 3: the third, until 6. From 6: the first, until 7.5.
    assert served_together(arrivals, costs, 1.0) == 10.5
    assert served_together(arrivals[:3], costs[:3], 1.0) == 7.5
    assert served_together(np.zeros(3), costs[:3], 1.0) == 4.5


def test_the_coordinator_bounds_what_workers_reach():
    overhead = Overhead(
        worker=0, plan=0.5, submit=0.25, receive=1.5, commit=0.5, store=0.125, collect=1
    )
    work = tasks(*[1] * 10, rows=4)
    planned, submitted, collected = 0.5 * 40, 0.25 * 10, 1 * 40
    # The first nine have ended when the last one is submitted, and that one while they are stored.
    stored = 2 * 0.5 + 10 * (1.5 + 0.125 * 4)
    found = with_executor(work, 1000, conditions(overhead))
    assert found.makespan == planned + submitted + stored + collected
    assert limit(work, 1000, overhead=overhead).cause == "the coordinator"


def test_every_task_is_done_once():
    rng = np.random.default_rng(1)
    work = Tasks(rng.uniform(1, 9, 500), np.full(500, 3))
    ends, repeated, given_up = end_times(
        work, np.zeros(500), [1.0] * 7, conditions(life=300.0), np.random.default_rng(2)
    )
    assert repeated > 0 and given_up == 0
    assert np.isfinite(ends).all() and (ends >= work.seconds).all()
    # Without deaths, workers have no gaps before the queue is empty.
    ends, *_ = end_times(work, np.zeros(500), [1.0] * 7, conditions(), rng)
    assert work.seconds.sum() / 7 <= ends.max() <= work.seconds.sum() / 7 + work.seconds.max()


def test_more_workers_are_not_slower_with_equal_tasks():
    work = tasks(*[2.5] * 600)
    spans = [with_executor(work, n, Conditions(startup=3)).makespan for n in (1, 2, 5, 64, 600)]
    assert spans == sorted(spans, reverse=True) and spans[0] > 100 * spans[-1]


@pytest.mark.parametrize(
    "worse",
    [
        {"startup": 5.0},
        {"straggler_share": 0.1, "straggler_factor": 3.0},
        {"life": 500.0, "startup": 1.0},
        {"overhead": replace(NONE, worker=1.0)},
        {"overhead": replace(NONE, store=0.1)},
    ],
)
def test_what_is_switched_on_costs_time(worse):
    work = tasks(*[2.0] * 400)
    plain, found = (
        with_executor(work, 20, Conditions(**{"overhead": NONE, **given})) for given in ({}, worse)
    )
    assert found.makespan > plain.makespan == pytest.approx(40)


def test_limits_are_named_by_what_they_cost():
    assert limit(tasks(*[1] * 64), 64).cause == "nothing"
    assert limit(tasks(*[1] * 65), 64).cause == "too few tasks"
    assert limit(tasks(*[1] * 3), 64).cause == "too few tasks"
    assert limit(tasks(*[1] * 640, 50), 64).cause == "the longest task"
    assert limit(tasks(*[1] * 640), 64, startup=20.0).cause == "start-up"
    slow = {"straggler_share": 0.25, "straggler_factor": 4.0}
    assert limit(tasks(*[0.1] * 6400), 64, **slow).cause == "stragglers"
    assert limit(tasks(*[1] * 6400), 64, overhead=replace(NONE, worker=1.0)).cause == (
        "overhead of tasks"
    )
    assert limit(tasks(*[10] * 640), 64, life=50.0).cause == "deaths"


def test_without_its_limit_a_schedule_ends_at_the_time_that_is_said():
    found = limit(tasks(*[1] * 640), 64, startup=20.0)
    assert found.makespan == pytest.approx(10)


def test_more_tasks_make_commits_cheaper_only_where_each_task_has_one():
    work, own = tasks(*[1] * 65), conditions(replace(NONE, commit=0.5))
    executor = lambda work, given: with_executor(work, 64, given)  # noqa: E731
    in_turn = lambda work, given: with_shards(  # noqa: E731
        work, np.arange(len(work)) % 64 + 1, 64, 1, given
    )
    found = limit_of(executor, work, 64, own, executor(work, own).makespan)
    # In 32 parts each: two turns while they last, of half a second each, and one for the last.
    assert found.cause == "too few tasks" and found.makespan == 33 / 32 + 0.5
    found = limit_of(in_turn, work, 64, own, in_turn(work, own).makespan, commit_per_task=True)
    assert found.cause == "too few tasks" and found.makespan == 33 / 32 + 0.5 / 32


def test_shards_end_with_the_one_that_has_most():
    work, shards = tasks(4, 3, 2, 1), np.array([1, 2, 2, 1])
    assert with_shards(work, shards, 2, 1, conditions()).makespan == 5
    assert with_shards(work, shards, 2, 2, conditions()).makespan == 4
    assert with_shards(work, np.array([1, 1, 1, 1]), 2, 1, conditions()).makespan == 10
    slow = conditions(straggler_share=0.5, straggler_factor=2.0)
    assert with_shards(work, shards, 2, 1, slow).makespan == 10


def test_a_shard_plans_all_and_stores_its_own():
    overhead = Overhead(worker=9, plan=0.5, submit=9, receive=9, commit=1, store=0.25, collect=9)
    found = with_shards(tasks(4, 4, rows=2), np.array([1, 2]), 2, 1, conditions(overhead))
    assert found.makespan == 0.5 * 4 + 4 + 1 + 0.25 * 2


def test_what_cannot_be_is_refused():
    for wrong in (
        {"startup": -1.0}, {"straggler_share": 1.5}, {"straggler_factor": 0.5}, {"life": 0.0},
        {"startup": float("inf")},
    ):  # fmt: skip
        with pytest.raises(UsageError, match="expected"):
            Conditions(**wrong)
    with pytest.raises(UsageError, match="overhead: store"):
        Conditions(overhead=Overhead(store=-1.0))
