"""What an evaluation says while it runs."""

import re
import sqlite3
from contextlib import closing

import pytest

from closed_loop_cli_test import folder, run, texts  # noqa: F401
from kvsim.closed_loop import replayed
from kvsim.command import progress
from kvsim.command.progress import Shown, time_left
from kvsim.verbs.progress import Tracker


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only when a test says so."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_what_is_left_takes_as_long_as_what_is_done(clock):
    shown = []
    tracker = Tracker(lambda *state: shown.append(state))
    tracker.count(1, 3)
    tracker.expect("record", 10)
    tracker.expect("row", 20)
    tracker.begin("recording")
    assert shown == [(1, 3, "recording", None)]  # nothing is known
    tracker.guess({"record": 2.0, "row": 3.0})
    tracker.begin("recording")
    assert shown[-1] == (1, 3, "recording", 10 * 2 + 20 * 3)
    clock[0] += 5
    tracker.advance("record", 10, then="evicting")
    assert shown[-1] == (1, 3, "evicting", 20 * 3)
    clock[0] += 40
    tracker.advance("row", 10, rows=1)
    assert shown[-1] == (2, 3, "evicting", 10 * 4)
    clock[0] += 20
    tracker.advance("row", 10, rows=1)
    assert shown[-1] == (3, 3, "evicting", 0)


def test_lines_appear_for_tenths_stages_and_minutes(clock, capsys):
    shown = Shown("rows", is_terminal=False)

    def lines(seconds, *state):
        clock[0] += seconds
        shown(*state)
        return capsys.readouterr().err.splitlines()

    assert lines(0, 0, 40, "recording", None) == ["kvsim: 0 of 40 rows, recording"]
    assert lines(9, 0, 40, "replaying", 100.0) == []  # a stage that may be short
    assert lines(2, 0, 40, "replaying", 100.0) == [
        "kvsim: 0 of 40 rows, replaying, about 2 min left"
    ]
    assert lines(0.5, 5, 40, "evicting", 20.0) == []
    assert lines(0.5, 5, 40, "evicting", 20.2) == ["kvsim: 5 of 40 rows, evicting, about 21 s left"]
    assert lines(59, 6, 40, "evicting more", 20.0) == []  # the next row is no other stage
    assert len(lines(1, 6, 40, "evicting", 20.0)) == 1
    assert lines(0, 40, 40, "evicting", 0.0) == ["kvsim: 40 of 40 rows"]
    assert lines(70, 40, 40, "", 0.0) == []
    shown.close()
    assert capsys.readouterr().err == ""


def test_a_terminal_has_a_bar(clock, capsys):
    shown = Shown("rows", is_terminal=True)
    shown(0, 4, "recording", 90.0)
    clock[0] += 0.05
    shown(1, 4, "not seen", 30.0)
    clock[0] += 0.0625
    shown(2, 4, "evicting", 20.0)
    shown(4, 4, "", 0.0)
    shown.close()
    _, first, second, last = capsys.readouterr().err.split("\r")
    assert first == f"kvsim: [{'':24}] 0 of 4 rows, recording, about 2 min left"
    assert second.rstrip() == f"kvsim: [{'=' * 12:24}] 2 of 4 rows, evicting, about 20 s left"
    assert last.rstrip() == f"kvsim: [{'=' * 24}] 4 of 4 rows"
    assert len(first) == len(second) == len(last.rstrip("\n")) and last.endswith("\n")


def test_times_are_written_as_the_program_writes_them():
    assert [time_left(x) for x in (0.2, 89.5, 90, 3540, 3 * 3600 + 61)] == [
        "about 1 s left", "about 90 s left", "about 2 min left", "about 59 min left",
        "about 3 h 1 min left",
    ]  # fmt: skip


def test_a_command_says_what_it_does_in_order(folder, texts, capsys, monkeypatch):  # noqa: F811
    monkeypatch.setattr(progress, "NEXT_STAGE", 0)
    monkeypatch.setattr(progress, "NEXT_TENTH", 0)
    command = [
        folder, "--texts", "texts.jsonl", "--policies", "window;tova", "--budgets", "6",
        "-o", "r.sqlite",
    ]  # fmt: skip
    lines = run(capsys, *command).err.splitlines()
    assert lines[0] == f"kvsim: loading {folder}"
    said = [line.removeprefix("kvsim: ") for line in lines[1:]]
    assert [line for line in said[:-1] if not re.search(", about .* left$", line)] == []
    assert [re.sub(", about .*", "", line) for line in said] == [
        "0 of 4 rows, recording text 1 of 2",
        "0 of 4 rows, replaying text 1 of 2",
        "0 of 4 rows, text 1 of 2, configuration 1 of 2",
        "1 of 4 rows, text 1 of 2, configuration 2 of 2",
        "2 of 4 rows, text 1 of 2, configuration 2 of 2",
        "2 of 4 rows, recording text 2 of 2",
        "2 of 4 rows, replaying text 2 of 2",
        "2 of 4 rows, text 2 of 2, configuration 1 of 2",
        "3 of 4 rows, text 2 of 2, configuration 2 of 2",
        "4 of 4 rows",
    ]
    again = run(capsys, *command).err.splitlines()
    assert again == [lines[0], "kvsim: 4 of 4 rows"]


def test_a_resume_knows_the_time_of_replays_from_that_of_rows(
    folder,  # noqa: F811
    texts,  # noqa: F811
    clock,
    capsys,
    monkeypatch,
):
    command = [
        folder, "--texts", "texts.jsonl", "--policies", "window;tova", "--budgets", "6,8",
        "-o", "r.sqlite",
    ]  # fmt: skip
    run(capsys, *command)
    with closing(sqlite3.connect("r.sqlite")) as file, file:
        file.execute("DELETE FROM closed_loop")

    replays = replayed._replay

    def slow(*arguments):
        clock[0] += 600
        return replays(*arguments)

    left = []
    monkeypatch.setattr(replayed, "_replay", slow)
    monkeypatch.setattr(
        Shown, "__call__", lambda self, done, total, doing, seconds: left.append((done, seconds))
    )
    run(capsys, *command)
    first = [seconds for done, seconds in left if done == 1]
    assert 500 < first[0] < 700  # the replays of the second text; a row takes no time
