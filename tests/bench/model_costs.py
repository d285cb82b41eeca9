"""What a sweep of a whole model costs: time, memory and the size of its trace.

python tests/bench/model_costs.py [--lengths 2048,8192] [--models Llama-3.1-8B] [--limit SECONDS]

Makes synthetic traces of the shape of a layer (`kvsim synth`, float16, no outputs), some KV
heads with the query heads that read them, runs the program on one thread, and multiplies the CPU
time of a KV head by the KV heads of the model. What would take longer than --limit, by the square
of its length and the next shorter text, is left out. Needs build/kvsim or KVSIM_PROGRAM.
"""

import argparse
import json
import math
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

PROGRAM = os.environ.get("KVSIM_PROGRAM", Path(__file__).parents[2] / "build" / "kvsim")
TEN = "1%,2%,5%,10%,20%,30%,40%,50%,60%,80%"
FOUR = "h2o;tova;h2o:score=full;sink"
CORES = 64


@dataclass(frozen=True)
class Model:
    name: str
    layers: int
    query_heads: int
    kv_heads: int
    head_dim: int

    @property
    def units(self):
        return self.layers * self.kv_heads


MODELS = [
    Model("SmolLM2-135M", 30, 9, 3, 64),
    Model("Llama-3.2-1B", 16, 32, 8, 64),
    Model("Llama-3.1-8B", 32, 32, 8, 128),
    Model("Qwen3-32B", 64, 64, 8, 128),
]


def jobs(tokens):
    """What is asked -> the words of the command. A tenth of the tokens is chosen from a fifth."""
    fetch = f"fetch --select quest:k={tokens // 10} --resident 20% --replace lru,belady"
    return {
        "1 configuration": ["sweep", "--policies", "h2o", "--budgets", "20%"],
        "10 configurations": ["sweep", "--policies", "h2o", "--budgets", TEN],
        "40 configurations": ["sweep", "--policies", FOUR, "--budgets", TEN],
        "curve": ["curve", "--policies", "h2o:recent=16,score=full"],
        "optimal, 10 budgets": ["sweep", "--policies", "optimal", "--budgets", TEN],
        "fetch": fetch.split(),
    }


def run(*words):
    """CPU seconds and the most resident memory in bytes of a command that must succeed."""
    process = subprocess.Popen([PROGRAM, *words, "--quiet"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"model_costs: error: failed: kvsim {' '.join(map(str, words))}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def synthesise(model, tokens, heads, file):
    group = model.query_heads // model.kv_heads
    shape = {"layers": 1, "kv-heads": heads, "query-heads": group * heads}
    shape |= {"head-dim": model.head_dim, "tokens": tokens}
    options = [word for name, value in shape.items() for word in (f"--{name}", str(value))]
    run("synth", "-o", file, "--no-output", *options)


def measure(model, tokens, folder, expected):
    """Per job: CPU seconds of a KV head and bytes of memory; the trace's bytes of a KV head."""
    heads = max(1, 16384 // tokens)
    trace = folder / "trace.h5"
    synthesise(model, tokens, heads, trace)
    measured = {}
    for job, (verb, *options) in jobs(tokens).items():
        if not expected(job):
            continue
        results = folder / "results.sqlite"
        results.unlink(missing_ok=True)
        seconds, memory = run(verb, trace, *options, "--threads", "1", "-o", results)
        measured[job] = {"seconds": seconds / heads, "memory": memory}
    return measured, trace.stat().st_size / heads


def spoken(seconds):
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def row(model, tokens, measured, size):
    """CPU time of one core; that of the core of a cluster that has the most KV heads; memory."""
    cells = [model.name, f"{tokens:,}", f"{size * model.units / 1e9:.2g} GB"]
    for job in jobs(tokens):
        if job not in measured:
            cells.append("")
            continue
        one = measured[job]["seconds"]
        most = math.ceil(model.units / CORES)
        cells.append(f"{spoken(one * model.units)}; {spoken(one * most)}")
    memory = [f"{measured[job]['memory'] / 1e6:.0f}" for job in jobs(tokens) if job in measured]
    return f"| {' | '.join([*cells, ', '.join(memory)])} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(model.name for model in MODELS))
    parser.add_argument("--lengths", default="2048,8192,32768")
    parser.add_argument("--limit", type=float, default=600, help="CPU seconds of one command")
    parser.add_argument("--json", help="a file that takes all measurements")
    arguments = parser.parse_args()
    chosen = arguments.models.split(",")
    if unknown := set(chosen) - {model.name for model in MODELS}:
        parser.error(f"--models: expected {', '.join(m.name for m in MODELS)}, got {unknown}")
    lengths = sorted(int(word) for word in arguments.lengths.split(","))

    columns = ["model", "tokens", "trace", *jobs(1024), "MB"]
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}", flush=True)
    everything = []
    with tempfile.TemporaryDirectory() as folder:
        for model in (model for model in MODELS if model.name in chosen):
            shorter = {}
            for tokens in lengths:

                def expected(job, shorter=shorter, tokens=tokens):
                    before, seconds = shorter.get(job, (tokens, 0))
                    return seconds * (tokens / before) ** 2 <= arguments.limit

                measured, size = measure(model, tokens, Path(folder), expected)
                print(row(model, tokens, measured, size), flush=True)
                everything.append({"model": model.name, "tokens": tokens, "measured": measured})
                everything[-1]["trace_bytes"] = size * model.units
                for job, found in measured.items():
                    shorter[job] = (tokens, found["seconds"])
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
