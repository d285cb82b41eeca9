"""The file of scorers, as policies/learned/README.md defines it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]


def with_zeros(scorers: list[Arrays | None]) -> list[Arrays]:
    """The same, with scorers that say 0 in place of None. At least one is there."""
    some = next(scorer for scorer in scorers if scorer is not None)
    zeros = {name: np.zeros_like(array) for name, array in some.items()}
    return [zeros if scorer is None else scorer for scorer in scorers]


def write_scorers(path: Path, header: dict[str, Any], scorers: list[Arrays]) -> None:
    """Writes scorers in their order. Equal scorers are equal bytes."""
    arrays = {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)}
    arrays |= {name: np.stack([each[name] for each in scorers]) for name in scorers[0]}
    with zipfile.ZipFile(path, "w") as file:
        for name, array in arrays.items():
            # A ZipInfo of its own bears a fixed date.
            with file.open(zipfile.ZipInfo(f"{name}.npy"), "w") as entry:
                np.lib.format.write_array(entry, np.ascontiguousarray(array), allow_pickle=False)
