"""What a new installation must do, with no other package or file: `python smoke.py [--record]`.

`--record` also records a model made on the spot, for which the extra `record` is installed.
"""

import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import kvsim

SIZES = "--tokens 64 --layers 1 --query-heads 4 --kv-heads 2 --head-dim 16 --quiet -o trace.h5"


def program(folder, *arguments):
    """What the installed program prints, in the folder."""
    command = [Path(sysconfig.get_path("scripts")) / "kvsim", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"kvsim {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def replay(folder):
    """The program and the module replay the same trace, and agree in every count."""
    program(folder, "synth", *SIZES.split())
    sweep = "sweep trace.h5 --policies window;h2o --budgets 25% --quiet -o rows.sqlite"
    program(folder, *sweep.split())
    found = kvsim.sweep(kvsim.Trace(folder / "trace.h5"), ["window", "h2o"], ["25%"])
    expected = kvsim.load(folder / "rows.sqlite").replay
    columns = ["policy", "kv_head", "budget", "token_misses"]
    rows = [sorted(frame[columns].values.tolist()) for frame in (found, expected)]
    assert len(rows[0]) == 4 and rows[0] == rows[1], f"expected 4 equal rows each, found {rows}"


def record(folder):
    """A model with random weights is recorded, and its attention is found to be what it was."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 32, "vocab_size": 50}
    heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(**sizes, **heads)).eval()
    with torch.no_grad(), kvsim.recording(model, folder / "recorded.h5"):
        model(torch.arange(20)[None])
    program(folder, "verify", "recorded.h5")


def main():
    assert program(".", "--version").split()[1].split("+")[0] == kvsim.__version__
    with tempfile.TemporaryDirectory() as folder:
        replay(Path(folder))
        if sys.argv[1:] == ["--record"]:
            record(Path(folder))
    also = " and records a model" if sys.argv[1:] else ""
    print(f"kvsim {kvsim.__version__} replays a trace{also} under Python {sys.version.split()[0]}.")


if __name__ == "__main__":
    main()
