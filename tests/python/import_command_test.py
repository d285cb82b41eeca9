"""`kvsim convert --from` makes the trace that kvsim.import_arrays makes, or one line of error."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kvsim
from conftest import PROGRAM
from import_arrays_test import HEADS, TOKENS, bfloat16, dumped, layer_of, without
from kvsim.imports.__main__ import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def digests_of(*words, **options):
    """Of the trace that the command makes, and of the one that the function makes."""
    files = [word for word in words if word.endswith(".npz")]
    assert main([*words, "-o", "command.h5", "-q"]) == 0
    ours = kvsim.Trace("command.h5")
    theirs = kvsim.import_arrays(files, "function.h5", notes=list, **options)
    return (ours.trace_id, ours.recorder), (theirs.trace_id, theirs.recorder)


def test_every_option_is_an_argument_of_the_function(folder):
    arrays = without(layer_of(kv_heads=HEADS), "output")
    for layer in (0, 1):
        names = {
            f"block.{layer}.{role[0]}x": each for role, each in dumped(arrays, "bt(hd)").items()
        }
        np.savez(f"layer_{layer}.npz", **{name: bfloat16(each) for name, each in names.items()})
    ids, mask = np.arange(TOKENS)[None], np.ones((1, TOKENS), int)
    np.save("ids.npy", ids)
    np.save("mask.npy", mask)
    rope = {"inv_freq": [1.0, 0.1, 0.01, 0.001], "style": "interleaved", "attention_factor": 1.0}
    Path("rope.json").write_text(json.dumps(rope))
    words = (
        "--from layer_0.npz layer_1.npz --layout bt(hd) --name query=block.{layer}.qx "
        "--name key=block.{layer}.kx --name value=block.{layer}.vx --num-query-heads 4 "
        "--num-kv-heads 4 --head-dim 8 --repeated keep --dtype bfloat16 --attention-mask mask.npy "
        "--token-ids ids.npy --sequence-names text --prompt-length 3 --scale 0.5 "
        "--logit-softcap 20 --sliding-window 0=4 --rope rope.json --rotate --num-layers 3 "
        "--model small --no-verify"
    ).split()
    names = {role: f"block.{{layer}}.{role[0]}x" for role in arrays}
    command, function = digests_of(
        *words, layout="bt(hd)", names=names, num_query_heads=HEADS, num_kv_heads=HEADS,
        head_dim=8, repeated="keep", dtype="bfloat16", attention_mask=mask, token_ids=ids,
        sequence_names=["text"], prompt_length=3, scale=0.5, logit_softcap=20.0,
        sliding_window={0: 4}, rope=rope, rotate=True, num_layers=3, model="small", verify=False,
    )  # fmt: skip
    assert command == function
    trace = kvsim.Trace("command.h5")
    assert (trace.scale, trace.num_layers, trace.sequences[0].prompt_length) == (0.5, 3, 3)


def test_layouts_of_single_datasets_and_windows_of_all_layers_are_options(folder):
    np.savez("dump.npz", **dumped(layer_of(), "bthd"))
    layout = dict.fromkeys(("query", "key", "value", "output"), "bthd")
    said = ",".join(f"{role}={each}" for role, each in layout.items())
    command, function = digests_of(
        "dump.npz", "--layout", said, "--sliding-window", "9", layout=layout, sliding_window=9
    )
    assert command == function


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["dump.npz", "--layout", "htd"], 2, "no layout fits"),
        (["dump.npz", "--layout", "xyz"], 2, "expected one of bhtd"),
        (["dump.npz", "--scale", "3"], 3, "with scale="),
        (["dump.npz", "--scale", "-1"], 2, "expected more than 0"),
        (["dump.npz", "--name", "query"], 2, "expected NAME=VALUE"),
        (["dump.npz", "--num-layers", "0"], 2, "expected a whole number from 1 on"),
        (["dump.npz", "--token-ids", "dump.npz"], 2, "expected one array of numbers"),
        (["dump.npz", "--token-ids", "huge.npy"], 2, "or a part of one"),
        (["dump.npz", "--token-ids", "objects.npy"], 2, "expected one array of numbers"),
        (["dump.npz", "--rope", "deep.json"], 2, "expected a JSON file"),
        (["dump.npz", "--layout", "query=bhtd,query=bthd"], 2, "found query twice"),
        (["dump.npz", "--sliding-window", "0=4,0=8"], 2, "found 0 twice"),
        (["dump.npz", "--name", "query=a", "--name", "query=b"], 2, "found query twice"),
        (["dump.npz", "--token-ids", "none.npy"], 2, "none.npy"),
        (["dump.npz", "--rope", "dump.npz"], 2, "expected a JSON file"),
        (["none.npz"], 2, "there is no such file"),
        ([], 2, "expected at least one file"),
    ],
)
def test_a_wrong_guess_ends_in_one_line_with_a_status(words, status, said, folder, capsys):
    np.savez("dump.npz", **dumped(layer_of(), "bhtd"))
    np.save("objects.npy", np.array([{}]))
    np.save("huge.npy", np.zeros(1000))
    huge = Path("huge.npy").read_bytes().replace(b"(1000,)", b"(9999,)")
    Path("huge.npy").write_bytes(huge)
    Path("deep.json").write_text("[" * 100_000)
    try:
        ended = main([*words, "-o", "t.h5"])
    except SystemExit as end:
        ended = end.code
    error = capsys.readouterr().err
    assert (ended, error.count("\n")) == (status, 1)
    assert error.startswith("kvsim: error: ") and said in error
    assert not Path("t.h5").exists()


@pytest.mark.skipif(not PROGRAM, reason="KVSIM_PROGRAM does not name the program")
def test_the_program_hands_a_dump_over(folder):
    np.savez("dump.npz", **dumped(layer_of(), "bhtd"))
    Path("c.yaml").write_text("from: [dump.npz]\noutput: configured.h5\nlayout: bhtd\n")

    def run(*words):
        command = [str(Path(PROGRAM).resolve()), "convert", *words]
        environment = os.environ | {"KVSIM_PYTHON": sys.executable}
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    ended = run("--from", "dump.npz", "-o", "t.h5")
    trace = kvsim.Trace("t.h5")
    assert ended.stdout == f"t.h5: version 2, trace_id {trace.trace_id}\n"
    assert "agrees with the outputs" in ended.stderr
    assert run("--config", "c.yaml", "-q").returncode == 0
    assert kvsim.Trace("configured.h5").trace_id == trace.trace_id
    for words, said in [
        (["t.h5", "--layout", "bhtd", "-o", "n.h5"], "--layout: expected --from"),
        (["t.h5", "-o", "n.h5", "--from", "dump.npz"], "expected no TRACE with --from"),
        (["--from", "dump.npz"], "expected --output"),
    ]:
        ended = run(*words)
        assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
        assert said in ended.stderr
