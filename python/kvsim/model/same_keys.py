"""Whether keys of a trace are those that a model computes."""

from __future__ import annotations

import numpy as np

# Of keys, relative to their length: rounding to half precision, in the trace or in the model, stays
# far below, another model far above.
KEY_TOLERANCE = 0.1


def key_difference(found: np.ndarray, held: np.ndarray) -> float:
    """The length of the difference, relative to that of the keys that are `held`."""
    error, length = float(np.linalg.norm(found - held)), float(np.linalg.norm(held))
    if length == 0:
        return 0.0 if error == 0 else float("inf")
    return error / length
