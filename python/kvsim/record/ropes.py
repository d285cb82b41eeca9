"""Writes how a trace's keys are rotated: once for what shares it."""

from collections.abc import Sequence as Several

import numpy as np

from ..model.rope import Rope, shared_rope
from .sequence import Sequence
from .trace_file import TraceFile


def write_ropes(file: TraceFile, sequences: Several[Sequence]) -> set[int]:
    """Writes the rotations of all texts. Returns the layers of which some is not known.

    One that all share stands in the file, else one that the layers of a text share in its sequence,
    else those that are known in their layers.
    """
    if rope := shared_rope(sequence.ropes for sequence in sequences):
        _write(file, "", rope)
        return set()
    unknown = set()
    for sequence in sequences:
        path = f"/sequences/{sequence.name}"
        if rope := shared_rope([sequence.ropes]):
            _write(file, path, rope)
            continue
        for layer in sequence.layers_with_cache:
            if rope := sequence.ropes.get(layer):
                _write(file, f"{path}/layers/{layer}", rope)
            else:
                unknown.add(layer)
    return unknown


def _write(file: TraceFile, path: str, rope: Rope) -> None:
    file.write_list(f"{path}/rope/inv_freq", np.array(rope.inv_freq, np.float64))
    file.write_attributes(
        f"{path}/rope", {"style": rope.style, "attention_factor": rope.attention_factor}
    )
