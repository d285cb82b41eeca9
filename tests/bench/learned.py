"""What scorers of the policy `learned` cost, in times of H2O's replay on the same heads.

python tests/bench/learned.py [--tokens N] [--budget B]: CPU time of `kvsim sweep` of one
configuration on one thread, of 4 synthetic heads that one query head each reads; the least of
several runs. Needs numpy, and build/kvsim or KVSIM_PROGRAM.
"""

import argparse
import json
import os
import resource
import subprocess
import tempfile
from pathlib import Path

import numpy as np

PROGRAM = os.environ.get("KVSIM_PROGRAM", Path(__file__).parents[2] / "build" / "kvsim")
LAYERS, HEADS, DIM = 1, 4, 128
CHANGING = ["now", "mean", "largest", "age", "decayed:0.98", "neighbours:0.98"]
FEATURES = ["key", "value", "key_norm", "value_norm", "key_like_mean", "position", *CHANGING]
COLUMNS = 2 * DIM + len(FEATURES) - 2
UNITS, TREES, DEPTH = 16, 50, 4


def scorers():
    """Kind -> its arrays, random, for every head its own."""
    random = np.random.default_rng(0)
    count = LAYERS * HEADS

    def normal(*shape):
        return random.normal(size=shape).astype(np.float32)

    # As in trained trees, most splits read what changes.
    split = random.integers(2 * DIM, COLUMNS, size=(count, TREES, 2**DEPTH - 1), dtype=np.int32)
    # What gets more attention stays, as with H2O: how many tokens come and go costs time, too.
    turns = np.array([bin(leaf).count("1") for leaf in range(2**DEPTH)])
    leaf = turns + 0.1 * random.normal(size=(count, TREES, 2**DEPTH))
    linear = 0.01 * normal(count, COLUMNS)
    linear[:, -len(CHANGING) :] = [1, 4, 1, -0.1, 4, 1]
    return {
        "linear": {"weights": linear, "bias": normal(count)},
        "mlp": {
            "hidden_weights": linear[:, None] + 0.01 * normal(count, UNITS, COLUMNS),
            "hidden_bias": 0.1 * normal(count, UNITS),
            "output_weights": np.ones((count, UNITS), np.float32),
            "output_bias": normal(count),
        },
        "trees": {
            "split_feature": split,
            "split_threshold": random.uniform(size=split.shape).astype(np.float32),
            "leaf": leaf.astype(np.float32),
            "bias": normal(count),
        },
    }


def header_of(kind):
    header = {"version": 1, "kind": kind, "scope": "head", "keys": "unrotated"}
    header |= {"layers": LAYERS, "kv_heads": HEADS, "head_dim": DIM, "value_dim": DIM}
    return np.frombuffer(json.dumps(header | {"features": FEATURES}).encode(), np.uint8)


def cpu_seconds(trace, policy, options):
    output = trace.with_suffix(".sqlite")
    output.unlink(missing_ok=True)
    command = [PROGRAM, "sweep", trace, "--policies", policy, "--budgets", options.budget]
    command += ["--threads", "1", "-q", "-o", output, "--mode", options.mode]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before.ru_utime


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--budget", default="20%")
    parser.add_argument("--mode", default="stream")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "t.h5"
        sizes = {"tokens": options.tokens, "layers": LAYERS, "query-heads": HEADS}
        sizes |= {"kv-heads": HEADS, "head-dim": DIM, "rope-base": 10000}
        sizes |= {"prompt-length": options.tokens // 2}
        arguments = [str(each) for name, size in sizes.items() for each in (f"--{name}", size)]
        subprocess.run([PROGRAM, "synth", "-q", "-o", trace, *arguments], check=True)
        policies = {"h2o": "h2o", "tova": "tova", "window": "window"}
        for kind, arrays in scorers().items():
            path = Path(folder) / f"{kind}.npz"
            np.savez(path, header=header_of(kind), **arrays)
            policies[f"learned, {kind}"] = f"learned:file={path}"
        seconds = dict.fromkeys(policies, float("inf"))
        for _ in range(options.repeats):
            for name, spec in policies.items():
                seconds[name] = min(seconds[name], cpu_seconds(trace, spec, options))
    for name, each in seconds.items():
        print(f"{name:16} {each:7.3f} s  {each / seconds['h2o']:5.2f} x h2o")


if __name__ == "__main__":
    main()
