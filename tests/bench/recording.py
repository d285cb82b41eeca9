"""What recording an 8B model on a device would cost: rates measured here, the device assumed.

python tests/bench/recording.py [--tokens 8192] [--tflops 400] [--fused 200] [--link 25] [--disk
MB/S]: CPU time of one thread of each thing that the recorder does on the host, the least of several
runs, on float16 vectors of a text that is drawn; then what follows for Llama-3.1-8B. Needs torch,
h5py and the installed package. Nothing runs on a GPU.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import torch

from kvsim import _engine
from kvsim.record.copies import LANES
from kvsim.record.packing import COMPRESSIONS
from kvsim.record.spool import Spool, SpooledRows
from kvsim.record.trace_file import TraceFile

LAYERS, QUERY_HEADS, KV_HEADS, DIM = 32, 32, 8, 128
WEIGHTS = 7.5e9  # that a token is multiplied with: all but the table of embeddings
BYTES = 2  # of a number
PER_TOKEN = LAYERS * 2 * (QUERY_HEADS + KV_HEADS) * DIM * BYTES
WIDE = 136  # numbers of a vector in the fused kernel: a length more, in eights
ERROR = 28  # bytes that are read and written for an output's error, per number of the output
MEMORY = 2e12  # bytes a second that the device reads and writes in its memory
THREADS = (1, 4, 8, 32)
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

    `pack` is what threads do of writing a dataset, `file` what is left to one of them, by
    compression; `write` the disk, which takes packed bytes. Then, by compression, to which share of
    the size chunks are packed.
    """
    random = torch.Generator().manual_seed(0)
    rows = torch.randn(QUERY_HEADS, options.sample, DIM, generator=random).half()
    size, rates, ratios = rows.numel() * BYTES, {}, {}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        spool = Spool(Path(folder) / "t.h5")
        kept = []

        def keep():
            spool.clear()
            kept[:] = [SpooledRows(spool, QUERY_HEADS, DIM, BYTES, "float16")]
            kept[0].append(rows.numpy())

        rates["keep"] = size / least(keep, options.repeats)

        for compression in COMPRESSIONS:
            with TraceFile(Path(folder) / "t.h5", 1, compression) as file:
                times = []
                for i in range(options.repeats):
                    before = time.process_time(), time.thread_time()
                    file.write_heads(file.h5["sequences"], str(i), kept[0], "float16")
                    own = time.thread_time() - before[1]
                    times.append((time.process_time() - before[0] - own, own))
                ratios[compression] = file.h5["sequences/0"].id.get_storage_size() / size
            for name, each in zip(("pack", "file"), zip(*times, strict=True), strict=True):
                rates[name, compression] = size / min(each)

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
    return rates, ratios


def attention(tokens):
    """Operations of one head: queries times keys and weights times values, causal."""
    return 4 * DIM * tokens * (tokens + 1) / 2


def model(options, rates, ratios, threads, compression):
    """Seconds of the forward pass with all that it waits for, and of writing its text."""
    work = host_work(options, rates, compression)
    during = max(
        options.plain + 2 * options.size / MEMORY + options.compare,
        options.size / options.link / 1e9,
        work["keep"] / min(threads, LANES),
    )
    written = options.size * ratios[compression] / rates["write"]
    return during, max(work["pack"] / threads, work["file"], written)


def host_work(options, rates, compression):
    """Seconds of one thread; of `file` there is only one."""
    pack, file = (options.size / rates[name, compression] for name in ("pack", "file"))
    return {"keep": options.size / rates["keep"], "pack": pack, "file": file}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--tokens", type=int, default=8192, help="of the text that is modelled")
    add("--tflops", type=float, default=400, help="of the forward pass (assumed)")
    add("--fused", type=float, default=200, help="TFLOP/s of attention to compare (assumed)")
    add("--link", type=float, default=25, help="GB/s from the device to memory (assumed)")
    add("--disk", type=float, help="MB/s that the disk takes (default: measured, in elapsed time)")
    add("--folder", help="of the disk that is measured (default: that of temporary files)")
    add("--sample", type=int, default=2048, help="tokens of what is measured")
    add("--repeats", type=int, default=5)
    options = parser.parse_args()
    rates, ratios = measure(options)
    n = options.tokens
    of_attention = LAYERS * QUERY_HEADS * attention(n)
    operations = 2 * WEIGHTS * n + of_attention
    plain = options.plain = operations / options.tflops / 1e12
    size = options.size = PER_TOKEN * n
    outputs = LAYERS * QUERY_HEADS * n * DIM
    fused = of_attention * WIDE / DIM / options.fused / 1e12
    options.compare = fused + outputs * ERROR / MEMORY
    print(f"Llama-3.1-8B, {n} tokens, float16: {PER_TOKEN} bytes a token, {size / 1e9:.2f} GB")
    print(f"forward pass: {operations:.2e} operations, {plain:.2f} s at {options.tflops:g} TFLOP/s")
    print(f"compare on the device: {fused:.3f} s at {options.fused:g} TFLOP/s, and "
          f"{options.compare - fused:.3f} s for errors")  # fmt: skip
    print(f"copy to memory: {size / options.link / 1e9:.2f} s at {options.link:g} GB/s, meanwhile")
    print(f"keep  {rates['keep'] / 1e6:8.0f} MB/s{size / rates['keep']:8.1f} s in one thread")
    for compression in COMPRESSIONS:
        for name in ("pack", "file"):
            rate = rates[name, compression]
            print(
                f"{name}  {rate / 1e6:8.0f} MB/s{size / rate:8.1f} s in one thread, {compression}"
            )
        print(f"      to {ratios[compression]:.3f} of the size")
    print(f"disk  {rates['write'] / 1e6:8.0f} MB/s{size / rates['write']:8.1f} s for all")
    seconds = of_attention / rates["check"]
    print(f"check {rates['check'] / 1e9:8.0f} GFLOP/s{seconds:5.0f} s in one thread of the CPU")
    print(
        f"{'':6}{'threads':>8}{'pass, s':>9}{'x plain':>9}{'write, s':>9}{'one x':>9}{'many x':>9}"
    )
    for compression in COMPRESSIONS:
        work = host_work(options, rates, compression)
        for threads in THREADS:
            during, write = model(options, rates, ratios, threads, compression)
            both = max(during, write, (work["keep"] + work["pack"]) / threads)
            print(f"{compression:6}{threads:8}{during:9.2f}{during / plain:9.2f}{write:9.2f}"
                  f"{(during + write) / plain:9.1f}{both / plain:9.2f}")  # fmt: skip
        needed = (work["keep"] + work["pack"]) / (GOAL * plain)
        disk = size * ratios[compression] / (GOAL * plain) / 1e9
        print(
            f"{compression}: {GOAL} passes need {needed:.0f} threads and a disk of {disk:.1f} GB/s"
        )
    print(f"to compare on the CPU, {seconds / (GOAL * plain):.0f} threads more")


if __name__ == "__main__":
    main()
