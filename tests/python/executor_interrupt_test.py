"""Ctrl-C while workers are at it."""

import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import kvsim
from executor_support import HEADS, LAYERS, Held, same, trace

SCRIPT = """
import signal, sys
from concurrent.futures import ProcessPoolExecutor

import kvsim
from executor_support import Held, trace

signal.signal(signal.SIGINT, signal.default_int_handler)
kvsim.executors.run.TASK_SECONDS = 1e-6

def tell(done, total):
    if done:
        print("stored", flush=True)

with ProcessPoolExecutor(2) as pool:
    try:
        kvsim.sweep(trace((2, 1)), Held, [6, 9], executor=pool, output=sys.argv[1], progress=tell)
    finally:
        print("ended", flush=True)
"""


def test_what_was_finished_is_kept_and_the_same_call_does_the_rest(tmp_path, monkeypatch):
    file, released = tmp_path / "results.sqlite", tmp_path / "released"
    monkeypatch.setenv("RELEASED", str(released))
    script = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, file], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, cwd=Path(__file__).parent,
    )  # fmt: skip
    assert script.stdout.readline() == "stored\n"
    script.send_signal(signal.SIGINT)
    while script.stdout.readline() == "stored\n":
        pass
    released.touch()  # not before: what is held was not done when Ctrl-C came
    _, errors = script.communicate(timeout=60)
    assert script.returncode == -signal.SIGINT, errors
    assert errors.rstrip().endswith("KeyboardInterrupt")
    first = kvsim.load(file).replay
    assert 0 < len(first) < LAYERS * HEADS * 2
    with ProcessPoolExecutor(2) as pool:
        frame = kvsim.sweep(trace((2, 1)), Held, [6, 9], executor=pool, output=file)
    assert set(first.run_id) < set(frame.run_id)
    whole = kvsim.sweep(trace((2, 1)), Held, [6, 9])
    same(frame.drop(columns="run_id"), whole.drop(columns="run_id"))
