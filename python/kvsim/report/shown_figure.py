"""A figure that a notebook shows without pyplot."""

import io

from matplotlib.figure import Figure

_DPI = 110


class ShownFigure(Figure):
    """Where pyplot is loaded, its formatter of figures comes before this one: a notebook shows the
    figure once either way."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=_DPI)
        return buffer.getvalue()
