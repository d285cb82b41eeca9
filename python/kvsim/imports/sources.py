"""Opens dumps. Shapes are known at once, numbers are read a layer at a time."""

from __future__ import annotations

import json
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, UsageError

if TYPE_CHECKING:
    import numpy as np

ENDINGS = (".npz", ".safetensors", ".pt", ".pth", ".bin")
_SAFETENSORS = {
    "F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
    "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?", "U16": "<u2",
}  # fmt: skip
_LAYER_IN_FILE = re.compile(r"(?:layers?|block|(?<![a-z])h)[._-]?(\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class Dumped:
    """An array of a dump that was not read so far."""

    name: str
    place: str  # the file and the name, for messages
    shape: tuple[int, ...]
    kind: str  # the name of its type: float16, bfloat16, float32 ...
    read: Callable[[], np.ndarray]  # bfloat16 as uint16 [shape]
    layer: int | None = None  # of the file that it stands in


def opened(source: object) -> list[Dumped]:
    """All arrays of a file, a folder, several files, or a dict. Raises UsageError, DataError."""
    if isinstance(source, Mapping):
        return [*_of_mapping(source)]
    paths = _paths(source)
    layers = _layers_of_files(paths)
    return [each for path in paths for each in _of_file(path, layers.get(path))]


def _paths(source: object) -> list[Path]:
    named = [source] if isinstance(source, (str, os.PathLike)) else source
    if not isinstance(named, Iterable):
        raise UsageError(f"source: expected a file, files or a dict, found {type(source).__name__}")
    found: list[Path] = []
    for each in named:
        path = Path(each)
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.suffix in ENDINGS)
            if not inside:
                raise UsageError(f"{path}: expected files {', '.join(ENDINGS)}, found none")
            found += inside
        elif not path.is_file():
            raise UsageError(f"{path}: there is no such file")
        elif path.suffix not in ENDINGS:
            raise UsageError(f"{path}: expected a file {', '.join(ENDINGS)}")
        else:
            found.append(path)
    if not found:
        raise UsageError("source: expected at least one file, found none")
    return found


def _layers_of_files(paths: list[Path]) -> dict[Path, int]:
    """The layer that the name of each file says; nothing of a single one."""
    layers = {}
    for path in paths if len(paths) > 1 else ():
        found = _LAYER_IN_FILE.findall(path.stem) or re.findall(r"\d+", path.stem)
        if len(found) == 1:
            layers[path] = int(found[0])
    return layers


def _of_mapping(arrays: Mapping[Any, Any], layer: int | None = None) -> Iterator[Dumped]:
    for name, values in arrays.items():
        if isinstance(values, Mapping):
            if not isinstance(name, int):
                raise UsageError(f"source: expected the number of a layer, found {name!r}")
            yield from _of_mapping(values, name)
        elif isinstance(values, (tuple, list)) and isinstance(name, int):
            if len(values) not in (3, 4):
                raise UsageError(
                    f"source: layer {name}: expected query, key, value and perhaps output, found "
                    f"{len(values)} arrays"
                )
            yield from _of_mapping(dict(zip(("query", "key", "value", "output"), values)), name)
        elif values is not None:
            yield _of_array(str(name), values, f"source: {name}", layer)


def _of_array(name: str, values: Any, place: str, layer: int | None) -> Dumped:
    import numpy as np

    if hasattr(values, "detach"):
        kind = str(values.dtype).removeprefix("torch.")
        return Dumped(name, place, tuple(values.shape), kind, partial(_bits, values), layer)
    array = np.asarray(values)
    kind = array.dtype.name
    if kind == "bfloat16":  # of ml_dtypes, which JAX uses
        array = array.view(np.uint16)
    return Dumped(name, place, array.shape, kind, lambda: array, layer)


def _bits(tensor: Any) -> np.ndarray:
    import torch

    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        import numpy as np

        return tensor.contiguous().view(torch.int16).numpy().view(np.uint16)
    return tensor.numpy()


def _of_file(path: Path, layer: int | None) -> Iterator[Dumped]:
    if path.suffix == ".npz":
        yield from _of_npz(path, layer)
    elif path.suffix == ".safetensors":
        yield from _of_safetensors(path, layer)
    else:
        yield from _of_torch(path, layer)


def _of_npz(path: Path, layer: int | None) -> Iterator[Dumped]:
    import numpy as np

    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                with archive.open(member) as file:
                    version = np.lib.format.read_magic(file)
                    header = (
                        np.lib.format.read_array_header_1_0
                        if version == (1, 0)
                        else np.lib.format.read_array_header_2_0
                    )
                    shape, _, dtype = header(file)
                name = member.removesuffix(".npy")
                place = f"{path}: {name}"
                if dtype.hasobject:
                    raise DataError(f"{place}: expected numbers, found Python objects")
                read = partial(_read_npz, path, name)
                yield Dumped(name, place, shape, dtype.name, read, layer)
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: expected an archive of numpy arrays, found {error}") from error


def _read_npz(path: Path, name: str) -> np.ndarray:
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as archive:
            return archive[name]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: {name}: cannot be read: {error}") from error


def _of_safetensors(path: Path, layer: int | None) -> Iterator[Dumped]:
    """The length of a header in 8 bytes, the header in JSON, then the numbers."""
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > size - 8:
                raise ValueError(f"a header of {length} bytes in a file of {size}")
            header = json.loads(file.read(length))
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            place, shape = f"{path}: {name}", tuple(entry["shape"])
            begin, end = entry["data_offsets"]
            if entry["dtype"] not in _SAFETENSORS:
                raise ValueError(f"{name} of type {entry['dtype']}")
            yield _mapped(
                path, name, place, shape, entry["dtype"], 8 + length, (begin, end), size, layer
            )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise DataError(f"{path}: expected a file of safetensors, found {error}") from error


def _mapped(
    path: Path, name: str, place: str, shape: tuple[int, ...], kind: str, start: int,
    ends: tuple[int, int], size: int, layer: int | None,
) -> Dumped:  # fmt: skip
    import numpy as np

    dtype = np.dtype(_SAFETENSORS[kind])
    begin, end = ends
    if (
        end - begin != dtype.itemsize * int(np.prod(shape))
        or min(begin, *shape) < 0
        or start + end > size
    ):
        raise ValueError(f"{name} {list(shape)} in the bytes {begin}..{end}, past its end or size")

    def read() -> np.ndarray:
        if begin == end:
            return np.empty(shape, dtype)
        return np.memmap(path, dtype, "r", start + begin, shape)

    return Dumped(name, place, shape, "bfloat16" if kind == "BF16" else dtype.name, read, layer)


def _of_torch(path: Path, layer: int | None) -> Iterator[Dumped]:
    try:
        import torch
    except ImportError as error:
        raise UsageError(f"{path}: reading it needs torch; pip install torch") from error
    import pickle

    try:
        # A file that is no archive of torch 1.6 and later cannot be mapped.
        held = torch.load(
            path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path)
        )
    except pickle.UnpicklingError as error:
        raise DataError(
            f"{path}: expected tensors in dicts, found damage or Python classes, which may run "
            "code; save a dict of tensors"
        ) from error
    except (OSError, RuntimeError, EOFError, ValueError, LookupError, TypeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{path}: expected a file of torch.save, found {reason}") from error
    if not isinstance(held, Mapping):
        raise DataError(f"{path}: expected a dict of tensors, found {type(held).__name__}")
    for each in _of_mapping(held, layer):
        place = f"{path}: {each.name}"
        yield Dumped(each.name, place, each.shape, each.kind, each.read, each.layer)
