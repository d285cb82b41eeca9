"""Labels as arrays by name: a dict, or an .npz file that is written unit after unit."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .units import Labelling, UnitLabels


def head_entries(labelling: Labelling) -> Iterator[tuple[str, np.ndarray]]:
    """What holds for several units. `budgets` is there if all sequences have the same."""
    of_sequence = labelling.budgets()
    different = {tuple(budgets) for budgets in of_sequence.values()}
    if len(different) == 1:
        yield "budgets", np.array(*different, np.int32)
    for sequence, budgets in of_sequence.items():
        yield f"{sequence}/budgets", np.array(budgets, np.int32)
    yield "block", np.array(labelling.block)
    yield "mode", np.array(labelling.mode)
    yield "trace_id", np.array(labelling.trace.trace_id)


def unit_entries(unit: UnitLabels) -> Iterator[tuple[str, np.ndarray]]:
    for name, array in unit.arrays.items():
        yield f"{unit.sequence}/{unit.layer}/{unit.kv_head}/{name}", array


class NpzFile:
    """As numpy.savez writes it: equal labels are equal bytes."""

    def __init__(self, path: Path, labelling: Labelling) -> None:
        self._zip = zipfile.ZipFile(path, "w")
        self._write(head_entries(labelling))

    def add(self, unit: UnitLabels) -> None:
        self._write(unit_entries(unit))

    def close(self) -> None:
        self._zip.close()

    def _write(self, entries: Iterator[tuple[str, np.ndarray]]) -> None:
        for name, array in entries:
            # A ZipInfo of its own bears a fixed date.
            with self._zip.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)

    @staticmethod
    def holds_labels(path: Path) -> bool:
        try:
            with zipfile.ZipFile(path) as there:
                return {"block.npy", "mode.npy", "trace_id.npy"} <= set(there.namelist())
        except (OSError, zipfile.BadZipFile):
            return False
