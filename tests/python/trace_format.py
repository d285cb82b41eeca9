"""The manifest of a trace, written once more to be read, and files that are sealed anew."""

import hashlib
import itertools
import json

import h5py

from kvsim import _engine

KNOWN = {
    "kvtrace_version", "num_layers", "num_query_heads", "num_kv_heads", "head_dim", "value_dim",
    "scale", "logit_softcap", "attention_factor", "style", "num_tokens", "prompt_length",
    "sliding_window", "attention_chunk", "label_seed",
}  # fmt: skip


def manifest(file: h5py.File) -> bytes:
    """Of a file whose heads were all written, with nothing that the format does not know."""
    tree = described(file)
    del tree["manifest"]
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def described(item: h5py.Group | h5py.Dataset) -> dict:
    found = {}
    for name, value in item.attrs.items():
        if name in KNOWN:
            found[name] = value.decode() if isinstance(value, bytes) else value.item()
    if isinstance(item, h5py.Dataset):
        digests = [f"{digest:016x}" for digest in item.attrs.get("digests", [])]
        return found | {"digests": digests, "shape": list(item.shape), "type": item.dtype.name}
    return found | {name: described(member) for name, member in item.items()}


def checked_id(path) -> str:
    """The trace_id of a file, which is that of its manifest, which lists what is there."""
    with h5py.File(path) as file:
        stored = file["manifest"][()].tobytes()
        assert stored == manifest(file)
        found = file.attrs["trace_id"].decode()
    assert found == hashlib.sha256(stored).hexdigest()
    return found


def token_texts(sequence: h5py.Group) -> list[str]:
    offsets, content = sequence["token_text_offsets"][()], sequence["token_text"][()].tobytes()
    return [content[a:b].decode() for a, b in itertools.pairwise(offsets)]


def seal_again(path) -> None:
    """After a change: digests and manifest are those of what the file holds now."""
    with h5py.File(path, "r+") as file:
        file.visititems(_without_digests)
    _engine.seal_trace(path)


def _without_digests(name: str, item: h5py.Group | h5py.Dataset) -> None:
    if "digests" in item.attrs:
        del item.attrs["digests"]
