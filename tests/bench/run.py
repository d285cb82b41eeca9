"""Runs the benchmarks, prints one page and writes all measurements to build/bench.json.

It also runs the PyTorch baseline if it finds a Python with torch. `make bench` builds the
benchmarks and calls this script.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from report import page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def fail(message):
    sys.exit(f"bench: error: {message}")


def call(*command, quiet=False):
    command = [str(word) for word in command]
    hidden = subprocess.PIPE if quiet else None
    try:
        done = subprocess.run(command, stdout=hidden, stderr=hidden, text=True)
    except OSError as error:
        fail(f"cannot start {command[0]}: {error.strerror}")
    if done.returncode != 0:
        said = (done.stderr or "").strip().splitlines()[-1:]
        fail(": ".join([f"{Path(command[0]).name} ended with status {done.returncode}", *said]))


def answer(*command):
    """What a command prints, or nothing if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def python_with(*modules):
    candidates = [os.environ.get("KVSIM_PYTHON"), ROOT / "build/venv/bin/python", "python3"]
    for python in filter(None, candidates):
        if answer(str(python), "-c", f"import {', '.join(modules)}; print('yes')") == "yes":
            return str(python)
    return None


def of_cpuinfo(field):
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    found = (line.split(":", 1)[1].strip() for line in lines if line.startswith(field))
    return next(found, "unknown")


def widest_vectors(flags):
    known = {"avx512f": "AVX512", "avx2": "AVX2"}
    return next((name for flag, name in known.items() if flag in flags), None)


def busy_share(seconds=3):
    """The share of the cores' time that other processes use, other guests of a hypervisor included.

    The load average would still show the build.
    """

    def idle_and_total():
        numbers = Path("/proc/stat").read_text().split()[1:9]
        user, nice, system, idle, iowait, *rest = map(int, numbers)
        return idle + iowait, user + nice + system + idle + iowait + sum(rest)

    before = idle_and_total()
    time.sleep(seconds)
    idle, total = (now - then for now, then in zip(idle_and_total(), before))
    return 1 - idle / max(total, 1)


def conditions(options):
    return {
        "date": options.date,
        "revision": answer("git", "describe", "--always", "--dirty"),
        "cpu": of_cpuinfo("model name"),
        "widest_vectors": widest_vectors(of_cpuinfo("flags").split()),
        "cores": len(os.sched_getaffinity(0)),
        "threads": options.threads,
        "busy_before": busy_share(),
    }


def google_benchmark(program, file, *arguments):
    call(
        program,
        f"--benchmark_out={file}",
        "--benchmark_out_format=json",
        "--benchmark_min_time=0.5",
        *arguments,
        quiet=True,
    )
    return json.loads(file.read_text())["benchmarks"]


def measure_device(programs, python, options):
    """What `device` measures on a GPU, and PyTorch there; nothing without one."""
    program, file = programs / "device", programs / "device.json"
    file.unlink(missing_ok=True)
    if not program.exists():
        return None
    print("Measuring the GPU", flush=True)
    call(
        program, "--heads", options.device_heads, "--tokens", options.device_tokens, "--json", file
    )
    if not file.exists():
        return None
    if python and answer(python, "-c", "import torch; print(torch.cuda.is_available())") == "True":
        call(python, HERE / "pytorch_device.py", file)
    return json.loads(file.read_text())


def measure_costs(programs, options):
    """CPU time of every policy, oracle and analysis on one head."""
    print("Measuring every policy, oracle and analysis", flush=True)
    file = programs / "costs.json"
    shape = ["--tokens", options.cost_tokens, "--head-dim", options.head_dim]
    call(programs / "costs", *shape, "--json", file, quiet=True)
    return json.loads(file.read_text())


def measure_python_policies(programs, options):
    """Times H2O written in Python and the engine's, where a Python has the package and numba."""
    python, file = python_with("kvsim._engine", "numba"), programs / "python_policies.json"
    if not python:
        return None
    print("Measuring policies in Python", flush=True)
    shape = ["--tokens", options.tokens, "--head-dim", options.head_dim]
    call(python, HERE / "python_policies.py", *shape, "--json", file, quiet=True)
    return json.loads(file.read_text())


def parse_arguments():
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--build", type=Path, default=ROOT / "build", help="the folder of the build"
    )
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument(
        "--heads-file", type=Path, help="raw float32 heads to measure, in place of synthetic ones"
    )
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument(
        "--cost-tokens", type=int, default=4096, help="of the table of policies and analyses"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=min(2, cores),
        help="of kvsim, of PyTorch and of the machine's peaks; the goals are for 2",
    )
    parser.add_argument("--device-heads", type=int, default=1024, help="on a GPU, if there is one")
    parser.add_argument("--device-tokens", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=5, help="of each case; the median counts")
    parser.add_argument(
        "--quick", action="store_true", help="fewer heads for the longest PyTorch runs"
    )
    parser.add_argument(
        "--date", default=datetime.date.today().isoformat(), help="as the file tells it"
    )
    return parser.parse_args()


def main():
    options = parse_arguments()
    if options.threads > len(os.sched_getaffinity(0)):
        fail(f"{options.threads} threads on {len(os.sched_getaffinity(0))} cores measure nothing")
    programs = options.build / "bench"
    report = {"conditions": conditions(options)}
    print("Measuring the machine", flush=True)
    report["machine"] = google_benchmark(
        programs / "machine", programs / "machine.json", options.threads
    )
    print("Measuring kernels", flush=True)
    report["kernels"] = google_benchmark(programs / "kernels", programs / "kernels.json")
    print("Measuring sweeps", flush=True)
    sweeps, heads = programs / "sweeps.json", programs / "heads.f32"
    shape = ["--tokens", options.tokens, "--head-dim", options.head_dim, "--heads", options.heads]
    effort = ["--threads", options.threads, "--repeats", options.repeats]
    files = ["--json", sweeps, "--write-heads", heads, "--trace-file", programs / "heads.h5"]
    if options.heads_file:
        files += ["--heads-file", options.heads_file]
    call(programs / "sweeps", *shape, *effort, *files, quiet=True)
    report["sweeps"] = json.loads(sweeps.read_text())
    report["costs"] = measure_costs(programs, options)
    in_python = measure_python_policies(programs, options)
    if in_python:
        report["python_policies"] = in_python
    python = python_with("torch", "numpy")
    if python:
        print("Measuring PyTorch, which takes minutes", flush=True)
        baseline = programs / "pytorch.json"
        quick = ["--quick"] if options.quick else []
        call(python, HERE / "pytorch_baseline.py", sweeps, heads, baseline, *quick)
        report["pytorch"] = json.loads(baseline.read_text())
    heads.unlink()
    device = measure_device(programs, python, options)
    if device:
        report["device"] = device
    file = options.build / "bench.json"
    file.write_text(json.dumps(report, indent=1) + "\n")
    print("\n" + page(report))
    print(f"\nAll of it is in {file}")


if __name__ == "__main__":
    main()
