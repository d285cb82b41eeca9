"""The file that the recorder writes: its name, its trace_id, its size in memory."""

import errno
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

import kvsim
from conftest import PROGRAM, needs_program
from kvsim.record import UsageError, recording
from kvsim.record.packing import COMPRESSIONS
from kvsim.record.spool import SpooledRows
from kvsim.record.trace_file import TraceFile
from record_zoo import build, generate, tokens, verify_with_program
from trace_format import checked_id, seal_again

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "traces/sample/tiny-llama.h5"


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "t.h5"
    model = build("llama")
    with recording(model, path):
        generate(model, tokens(20), 5)
    return path


def test_the_bundled_trace_has_the_name_that_its_manifest_gives():
    assert kvsim.Trace(SAMPLE).trace_id == checked_id(SAMPLE)


def test_the_engine_names_a_recording_as_its_manifest_does(trace):
    assert kvsim.Trace(trace).trace_id == checked_id(trace)


@needs_program
@pytest.mark.parametrize("options", [[], ["--dtype", "float32", "--layers", "2"]])
def test_the_program_names_synthetic_traces_alike(options, tmp_path):
    path = tmp_path / "t.h5"
    subprocess.run([PROGRAM, "synth", "-o", path, "--tokens", "70", *options], check=True)
    assert kvsim.Trace(path).trace_id == checked_id(path)


def test_the_trace_id_is_that_of_the_numbers(trace, tmp_path):
    packed = tmp_path / "packed.h5"
    with h5py.File(trace) as old, h5py.File(packed, "w") as new:
        new.attrs.update(old.attrs)
        for name, item in old.items():
            old.copy(item, new, name)
        old.visititems(lambda name, item: _repack(new, name, item))
    seal_again(packed)
    assert kvsim.Trace(packed).trace_id == checked_id(packed) == checked_id(trace)
    with h5py.File(packed, "r+") as file:
        file["sequences/sequence-0/layers/1/key"][1, 3, 2] += 1
    with pytest.raises(kvsim.DataError, match=r"layers/1/key: expected digest .* of head 1"):
        kvsim.Trace(packed).unit("sequence-0", 1, 1)
    seal_again(packed)
    assert kvsim.Trace(packed).trace_id == checked_id(packed) != checked_id(trace)


def test_a_recording_has_checksums_and_no_string_of_variable_length(trace):
    def check(name, item):
        for attribute in item.attrs:
            kind = h5py.check_string_dtype(item.attrs.get_id(attribute).dtype)
            assert kind is None or kind.length is not None, (name, attribute)
        if isinstance(item, h5py.Dataset):
            assert item.dtype.kind != "O", name

    with h5py.File(trace) as file:
        check("/", file)
        file.visititems(check)
    assert trace.read_bytes()[8] == 3  # the version of the superblock


def _repack(file, name, item):
    if isinstance(item, h5py.Dataset) and item.ndim == 3:
        numbers = item[()]
        del file[name]
        file.create_dataset(name, data=numbers.astype(">f2"), chunks=(2, 7, 16), compression="gzip")


def test_equal_recordings_are_equal_files(trace, tmp_path):
    model = build("llama")
    with recording(model, tmp_path / "again.h5"):
        generate(model, tokens(20), 5)
    assert (tmp_path / "again.h5").read_bytes() == trace.read_bytes()


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("pieces", [[1] * 300, [300], [127, 1, 172], [128, 128, 44]])
def test_rows_arrive_in_order(pieces, compression, tmp_path):
    numbers = np.random.default_rng(0).random((2, sum(pieces), 128)).astype(np.float32)
    with TraceFile(tmp_path / "t.h5", compression=compression) as file:
        other = SpooledRows(file.spool, 2, 128, 4)
        spooled = SpooledRows(file.spool, 2, 128, 4)
        for rows in np.split(numbers, np.cumsum(pieces)[:-1], axis=1):
            spooled.append(rows)
            other.append(-rows)
        spooled.flush()
        assert spooled.rows == sum(pieces)
        assert spooled.largest == np.abs(numbers).max()
        file.write_heads(file.h5["sequences"], "key", spooled, "float32")
        np.testing.assert_array_equal(file.h5["sequences/key"][()], numbers)
        assert file.h5["sequences/key"].chunks == (1, 128, 128)
    assert not list(tmp_path.iterdir())


def vectors_of(path):
    """Compression, chunks, type and shape of each dataset in chunks."""
    found = {}

    def see(name, item):
        if isinstance(item, h5py.Dataset) and item.chunks is not None:
            found[name] = item.compression, item.chunks, item.dtype, item.shape

    with h5py.File(path) as file:
        file.visititems(see)
    return found


def test_a_trace_without_compression_is_the_same_trace(tmp_path):
    model, paths = build("llama"), [tmp_path / f"{name}.h5" for name in COMPRESSIONS]
    also = "output_projection,residual,output_score_grad,mlp_activation"
    for path, compression in zip(paths, COMPRESSIONS, strict=True):
        with recording(model, path, also=also, compression=compression) as recorder:
            recorder.read(tokens(20)[0].tolist())
        verify_with_program(path)
    packed, plain = map(vectors_of, paths)
    assert len(packed) == 3 * 8
    assert {name: ("gzip", *rest) for name, (_, *rest) in plain.items()} == packed
    assert {compression for compression, *_ in plain.values()} == {None}
    one, other = map(kvsim.Trace, paths)
    assert one.trace_id == other.trace_id == checked_id(paths[1])
    one, other = (each.unit("sequence-0", 2, 1) for each in (one, other))
    np.testing.assert_array_equal(one.query, other.query)
    with h5py.File(paths[1], "r+") as file:
        file["sequences/sequence-0/layers/1/key"][1, 3, 2] += 1
    with pytest.raises(kvsim.DataError, match=r"layers/1/key: expected digest .* of head 1"):
        kvsim.Trace(paths[1]).unit("sequence-0", 1, 1)


def test_what_is_not_packed_is_the_same_for_any_number_of_threads(tmp_path, monkeypatch):
    monkeypatch.setattr("kvsim.record.unpacked.BYTES_AT_ONCE", 1 << 16)  # a chunk
    numbers = np.random.default_rng(0).random((3, 300, 128)).astype(np.float32)
    found = []
    for threads in (1, 5):
        with TraceFile(tmp_path / "t.h5", threads, "none") as file:
            spooled = SpooledRows(file.spool, 3, 128, 4)
            spooled.append(numbers)
            file.write_heads(file.h5["sequences"], "key", spooled, "float16")
            digests = file.h5["sequences/key"].attrs["digests"]
            assert digests.tolist() == [digest_of(head) for head in numbers.astype("<f2")]
            (partial,) = tmp_path.iterdir()
            file.h5.flush()
            found.append(partial.read_bytes())
            np.testing.assert_array_equal(file.h5["sequences/key"][()], numbers.astype("<f2"))
    assert found[0] == found[1]


def digest_of(numbers):
    digest = kvsim._engine.Digest()
    digest.update(numbers.reshape(-1).view(np.uint8))
    return digest.value()


def test_a_full_disk_is_said_in_one_line(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    named = pytest.raises(kvsim.KvsimError, match=r"t.h5: cannot be written: No space left on dev")
    with named, recording(build("llama"), tmp_path / "t.h5", compression="none") as recorder:
        monkeypatch.setattr("kvsim.record.unpacked._write", refuse)
        recorder.read(tokens(20)[0].tolist())
    assert not list(tmp_path.iterdir())


def test_another_compression_is_refused(tmp_path):
    named = recording(build("llama"), tmp_path / "t.h5", compression="zip")
    with pytest.raises(UsageError, match="compression: expected gzip or none, found zip"), named:
        pass
    assert not list(tmp_path.iterdir())


def test_texts_with_every_character(tmp_path):
    texts = ["", " the", "\u2019\u00e9\U0001f600", "a\0b", "\udc80"]
    with TraceFile(tmp_path / "t.h5") as file:
        file.write_texts("/texts", texts)
        offsets, content = file.h5["texts_offsets"][()], file.h5["texts"][()].tobytes()
        stored = [content[a:b].decode() for a, b in itertools.pairwise(offsets)]
        assert stored == ["", " the", "\u2019\u00e9\U0001f600", "a\u2400b", "?"]


def test_places_that_cannot_be_written(tmp_path):
    for path in (tmp_path, tmp_path / "none/t.h5"):
        with pytest.raises(UsageError, match=re.escape(str(path))), recording(build("llama"), path):
            pass


def test_an_older_trace_stays_until_the_new_one_is_whole(trace, tmp_path):
    path = shutil.copy(trace, tmp_path / "t.h5")
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt), recording(build("llama"), path):
        raise KeyboardInterrupt
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["t.h5"]


SLOW = """
    import sys, time
    from pathlib import Path
    from record_zoo import build, generate, tokens
    from kvsim.record import recording
    model = build("llama")
    with recording(model, sys.argv[1]):
        generate(model, tokens(20), 5)
        Path(sys.argv[1] + ".ready").touch()
        time.sleep(60)
"""

LONG = """
    import resource, sys
    import torch
    from kvsim.record.sequence import Sequence
    from kvsim.record.trace_file import TraceFile
    step = 10_000
    for tokens in (step, 5 * step):  # 30 and 150 MB of numbers
        with TraceFile(f"{sys.argv[1]}/{tokens}.h5") as file:
            sequence = Sequence("a", "", file.spool)
            rows = torch.zeros(8, step, 64)
            for _ in range(tokens // step):
                sequence.feed(None, torch.ones(step, dtype=torch.bool), None, set())
                sequence.append(0, {"query": rows, "key": rows, "value": rows})
            sequence.close()
            group = file.h5.create_group("sequences/a/layers/0")
            for name, spooled in sequence.spooled[0].items():
                file.write_heads(group, name, spooled, "float16")
            heads = {"num_layers": 1, "num_query_heads": 8, "num_kv_heads": 8}
            dims = {"head_dim": 64, "value_dim": 64, "scale": 0.125, "dtype": "float16"}
            file.write_attributes("/", {"kvtrace_version": 2, "model": "m", "recorder": ""})
            file.write_attributes("/", heads | dims)
            file.write_attributes("/sequences/a", {"num_tokens": tokens, "prompt_length": 0})
            file.commit()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


# Without these the allocator keeps what was freed, and its peak says little about what is in use.
GIVE_BACK = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}


def start(script: str, *arguments: object) -> subprocess.Popen:
    places = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        env=os.environ | GIVE_BACK | {"PYTHONPATH": os.pathsep.join(places)},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_killed_run_leaves_no_trace(tmp_path):
    path = tmp_path / "t.h5"
    with start(SLOW, path) as process:
        deadline = time.monotonic() + 120
        while not Path(f"{path}.ready").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
    assert not path.exists()


def test_memory_does_not_grow_with_length(tmp_path):
    with start(LONG, tmp_path) as process:
        short, long = map(int, process.communicate()[0].split())
    assert process.returncode == 0
    assert long < short + 20_000  # KiB
