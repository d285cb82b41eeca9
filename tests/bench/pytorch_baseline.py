"""Times the work of `sweeps` in PyTorch on the same heads and compares the results with its own.

There are three variants: `idiomatic` is a plain loop over steps (pytorch_stepwise.py); the other
two are as fast as we could make them (pytorch_batched.py). `masked` keeps all budgets of a policy
in one tensor. `shared` also reuses the exponentials of the full attention for every budget, as
kvsim does. `masked` and `shared` run in one process with all threads and in one process per thread.
"""

import argparse
import json
import multiprocessing
import re
import time
from pathlib import Path

import numpy
import torch

from pytorch_batched import replay_masked, replay_shared
from pytorch_stepwise import replay_stepwise

VARIANTS = {"idiomatic": replay_stepwise, "masked": replay_masked, "shared": replay_shared}

# Smallest denominator of a relative difference: below it the single precision of PyTorch decides.
LEAST_MEAN = 0.01


def grouped(configurations):
    """Budgets by policy, both in their order."""
    groups = {}
    for configuration in configurations:
        groups.setdefault(configuration["policy"], []).append(configuration["budget"])
    return groups


def load(file, shape, chosen):
    heads, tokens, dim = shape
    raw = numpy.memmap(file, numpy.float32, "r", shape=(3, heads, tokens, dim))
    return [torch.from_numpy(numpy.array(part[chosen])) for part in raw]


def serve(pipe, file, shape, threads):
    """A process of its own: loads heads, replays them and answers with means per head."""
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    heads = None
    while (request := pipe.recv()) is not None:
        if isinstance(request, slice):
            heads = load(file, shape, request)
            few = [part[:, :128] for part in heads]
            for replay in VARIANTS.values():
                replay(*few, {"h2o:recent=0.5,score=sum": [32]})  # the first calls are slower
            pipe.send(None)
        else:
            variant, budgets_of = request
            pipe.send([column.numpy() for column in VARIANTS[variant](*heads, budgets_of)])


class Processes:
    def __init__(self, count, threads, file, shape):
        context = multiprocessing.get_context("spawn")  # a fork would inherit OpenMP's threads
        self.threads = threads
        self.pipes, self.processes = [], []
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=serve, args=(theirs, file, shape, threads), daemon=True
            )
            process.start()
            self.pipes.append(ours)
            self.processes.append(process)

    def _ask_all(self, requests):
        for pipe, request in zip(self.pipes, requests):
            pipe.send(request)
        return [pipe.recv() for pipe in self.pipes]

    def run(self, variant, budgets_of, num_heads, repeats, most_seconds):
        """Seconds of each repeat, and attention loss and output error, [heads, configurations]."""
        count = len(self.pipes)
        self._ask_all([slice(rank, num_heads, count) for rank in range(count)])
        seconds = []
        while len(seconds) < repeats and sum(seconds) <= most_seconds:
            start = time.perf_counter()
            answers = self._ask_all([(variant, budgets_of)] * count)
            seconds.append(time.perf_counter() - start)
        merged = [numpy.empty((num_heads, part.shape[1])) for part in answers[0]]
        for rank, answer in enumerate(answers):
            for whole, part in zip(merged, answer):
                whole[rank::count] = part
        return seconds, merged

    def close(self):
        for pipe in self.pipes:
            pipe.send(None)
        for process in self.processes:
            process.join()


def difference(measured, configurations, column):
    """The largest relative difference of a configuration's mean over heads from kvsim's."""
    worst = 0
    for index, configuration in enumerate(configurations):
        expected = numpy.mean(configuration[column][: len(measured)])
        worst = max(worst, abs(measured[:, index].mean() - expected) / max(expected, LEAST_MEAN))
    return worst


def run_case(case, variant, processes, num_heads, options):
    configurations = case["configurations"]
    seconds, (loss, error) = processes.run(
        variant, grouped(configurations), num_heads, options.repeats, options.most_seconds
    )
    return {
        "case": case["id"],
        "variant": variant,
        "processes": len(processes.pipes),
        "threads_each": processes.threads,
        "heads": num_heads,
        "seconds": seconds,
        "ms_per_head": 1e3 * min(seconds) / num_heads,
        "attention_loss_difference": difference(loss, configurations, "attention_loss"),
        "output_error_difference": difference(error, configurations, "output_error_mean"),
    }


def gemm_gflop_per_s(threads, size=2048):
    torch.set_num_threads(threads)
    left, right = torch.rand(size, size), torch.rand(size, size)
    best = float("inf")
    for _ in range(10):
        start = time.perf_counter()
        torch.mm(left, right)
        best = min(best, time.perf_counter() - start)
    return 2e-9 * size**3 / best


def build():
    """What PyTorch says about its kernels."""
    text = torch.__config__.show()
    lines = [line.strip(" -") for line in text.splitlines()]
    wanted = (
        "Intel(R) oneAPI Math",
        "Intel(R) Math",
        "Intel(R) MKL-DNN",
        "OpenMP",
        "CPU capability",
    )
    return [line for line in lines if line.startswith(wanted)] + re.findall(r"BLAS_INFO=\w+", text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sweeps", type=Path, help="the JSON file that sweeps wrote")
    parser.add_argument("heads", type=Path, help="the heads that sweeps wrote")
    parser.add_argument("output", type=Path, help="the JSON file to write")
    parser.add_argument("--repeats", type=int, default=3, help="the fastest counts")
    parser.add_argument(
        "--most-seconds", type=float, default=20, help="of one line; then no repeats"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a quarter of the heads where there are several configurations",
    )
    options = parser.parse_args()
    sweeps = json.loads(options.sweeps.read_text())
    shape = (sweeps["heads"], sweeps["tokens"], sweeps["head_dim"])
    threads = sweeps["threads"]
    report = {
        "torch": torch.__version__,
        "build": build(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "gemm_gflop_per_s": gemm_gflop_per_s(threads),
        "runs": [],
    }
    for count in sorted({1, threads}):
        processes = Processes(count, threads // count, options.heads.absolute(), shape)
        for case in sweeps["cases"]:
            several = len(case["configurations"]) > 1
            if not case["configurations"] or case["reads_trace"]:
                continue
            num_heads = max(count, shape[0] // 4) if several and options.quick else shape[0]
            for variant in VARIANTS:
                if variant == "idiomatic" and (several or count > 1):
                    continue
                run = run_case(case, variant, processes, num_heads, options)
                report["runs"].append(run)
                print(
                    f"PyTorch {variant:<10}{case['title']:<26}{count} x {threads // count} threads"
                    f"{run['ms_per_head']:>10.2f} ms per head",
                    flush=True,
                )
        processes.close()
    options.output.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
