"""Tables of what heads remove at each compression ratio, as LUKVPress of kvpress reads them."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

RATIOS = 99  # rows of a table, for compression ratios of 1% to 99%


def npy_of(table: np.ndarray) -> bytes:
    """A file .npy with the table, or with other numbers."""
    import numpy as np

    file = BytesIO()
    np.save(file, table, allow_pickle=False)
    return file.getvalue()
