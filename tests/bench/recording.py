"""What recording an 8B model on a device would cost: rates measured here, the device assumed.

python tests/bench/recording.py [--tokens 8192] [--tflops 400] [--link 25] [--disk MB/S]: CPU time
of one thread of each thing that the recorder does on the host, the least of several runs, on
float16 vectors of a text that is drawn; then what follows for Llama-3.1-8B. Needs torch, h5py and
the installed package. Nothing runs on a GPU.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import torch

from kvsim import _engine
from kvsim.record.copies import LANES
from kvsim.record.spool import Spool, SpooledRows
from kvsim.record.trace_file import TraceFile

LAYERS, QUERY_HEADS, KV_HEADS, DIM = 32, 32, 8, 128
WEIGHTS = 7.5e9  # that a token is multiplied with: all but the table of embeddings
BYTES = 2  # of a number
PER_TOKEN = LAYERS * 2 * (QUERY_HEADS + KV_HEADS) * DIM * BYTES
MEMORY = 2e12  # bytes a second that the device copies within its memory, read and written
THREADS = (1, 4, 8, 16, 32, 64, 128)
GOAL = 1.3


def least(work, repeats):
    """CPU seconds of the fastest of several calls."""
    seconds = []
    for _ in range(repeats):
        before = time.process_time()
        work()
        seconds.append(time.process_time() - before)
    return min(seconds)


def measure(options):
    """Name -> rate of one thread, in bytes of float16 a second; of the check in FLOP/s.

    `pack` is what threads do of writing a dataset, `file` what is left to one of them, `write` the
    disk, which takes packed bytes.
    """
    random = torch.Generator().manual_seed(0)
    rows = torch.randn(QUERY_HEADS, options.sample, DIM, generator=random).half()
    size, rates = rows.numel() * BYTES, {}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        spool = Spool(Path(folder) / "t.h5")
        kept = []

        def keep():
            spool.clear()
            kept[:] = [SpooledRows(spool, QUERY_HEADS, DIM, BYTES, "float16")]
            kept[0].append(rows.numpy())

        rates["keep"] = size / least(keep, options.repeats)

        with TraceFile(Path(folder) / "t.h5", threads=1) as file:
            times = []
            for i in range(options.repeats):
                before = time.process_time(), time.thread_time()
                file.write_heads(file.h5["sequences"], str(i), kept[0], "float16")
                own = time.thread_time() - before[1]
                times.append((time.process_time() - before[0] - own, own))
            ratio = file.h5["sequences/0"].id.get_storage_size() / size
        rates["pack"], rates["file"] = (size / min(each) for each in zip(*times, strict=True))

        def write():
            with (Path(folder) / "disk").open("wb") as file:
                for _ in range(4):
                    file.write(rows.numpy().data)
                os.fsync(file.fileno())

        before = time.monotonic()
        write()
        written = 4 * size / (time.monotonic() - before)
        rates["write"] = options.disk * 1e6 if options.disk else written
    of_group = QUERY_HEADS // KV_HEADS
    query, key = (rows[:count].float().numpy() for count in (of_group, 1))
    causal = dict.fromkeys(("logit_softcap", "sliding_window", "attention_chunk", "selected"))
    causal |= {"scale": DIM**-0.5, "sink_logit": []}
    check = least(
        lambda: _engine.output_error(query, key[0], key[0], query, **causal), options.repeats
    )
    rates["check"] = of_group * attention(options.sample) / check
    return rates, ratio


def attention(tokens):
    """Operations of one head: queries times keys and weights times values, causal."""
    return 4 * DIM * tokens * (tokens + 1) / 2


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--tokens", type=int, default=8192, help="of the text that is modelled")
    add("--tflops", type=float, default=400, help="of the forward pass (assumed)")
    add("--link", type=float, default=25, help="GB/s from the device to memory (assumed)")
    add("--disk", type=float, help="MB/s that the disk takes (default: measured, in elapsed time)")
    add("--folder", help="of the disk that is measured (default: that of temporary files)")
    add("--sample", type=int, default=2048, help="tokens of what is measured")
    add("--repeats", type=int, default=5)
    options = parser.parse_args()
    rates, ratio = measure(options)
    n = options.tokens
    of_attention = LAYERS * QUERY_HEADS * attention(n)
    operations = 2 * WEIGHTS * n + of_attention
    plain, size = operations / options.tflops / 1e12, PER_TOKEN * n
    copied = size / options.link / 1e9
    print(f"Llama-3.1-8B, {n} tokens, float16: {PER_TOKEN} bytes a token, {size / 1e9:.2f} GB")
    print(f"forward pass: {operations:.2e} operations, {plain:.2f} s at {options.tflops:g} TFLOP/s")
    print(f"copy to memory: {copied:.2f} s at {options.link:g} GB/s, while the model goes on")
    for name in ("keep", "pack", "file", "write"):
        print(f"{name:6}{rates[name] / 1e6:8.0f} MB/s{size / rates[name]:8.1f} s in one thread")
    seconds = of_attention / rates["check"]
    print(f"check {rates['check'] / 1e9:8.0f} GFLOP/s{seconds:5.0f} s in one thread")
    print(f"packed to {ratio:.3f} of the size")
    print(f"{'threads':>8}{'pass, s':>9}{'x plain':>9}{'check, s':>9}{'pack, s':>9}{'x plain':>9}")
    for threads in THREADS:
        keep = size / rates["keep"] / min(threads, LANES)
        during = max(plain + 2 * size / MEMORY, copied, keep)
        check = of_attention / rates["check"] / threads
        alone = size / rates["file"], size * ratio / rates["write"]
        pack = max(size / rates["pack"] / threads, *alone)
        whole = (during + check + pack) / plain
        print(f"{threads:8}{during:9.2f}{during / plain:9.2f}{check:9.2f}{pack:9.2f}{whole:9.1f}")
    for name, work in (("keep", size), ("pack", size), ("check", of_attention)):
        needed = work / rates[name] / (GOAL * plain)
        print(f"{name}: {needed:.1f} threads would do it in {GOAL} passes")


if __name__ == "__main__":
    main()
