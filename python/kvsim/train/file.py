"""The file of scorers, as policies/learned/README.md defines it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ..files.partial import written_whole


def write_scorers(path: Path, header: dict[str, Any], scorers: list[dict[str, np.ndarray]]) -> None:
    """Writes scorers in their order. Equal scorers are equal bytes."""
    arrays = {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)}
    arrays |= {name: np.stack([each[name] for each in scorers]) for name in scorers[0]}
    with written_whole(path) as partial, zipfile.ZipFile(partial, "w") as file:
        for name, array in arrays.items():
            # A ZipInfo of its own bears a fixed date.
            with file.open(zipfile.ZipInfo(f"{name}.npy"), "w") as entry:
                np.lib.format.write_array(entry, np.ascontiguousarray(array), allow_pickle=False)
