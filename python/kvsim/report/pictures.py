"""Renders drawings: pictures for the page, and files for papers and slides."""

import base64
import io
from collections.abc import Iterable
from pathlib import Path

import matplotlib

from .figures import Drawing
from .style import COLUMN, LIGHT, NARROW, TEXT, THEMES, WIDE, Shape, Theme, settings

_PNG_DPI = 200
_ENDINGS = ("svg", "png")
_PAPERS = (COLUMN, TEXT)
# Omitted from files, because they differ between runs or contain addresses.
_FACTS = {
    "svg": dict.fromkeys(("Date", "Creator", "Type", "Format")),
    "pdf": dict.fromkeys(("CreationDate", "Creator", "Producer")),
    "png": {},
}


def file_names(name: str) -> dict[str, str]:
    """The files of the figure of this name, by what the page calls them."""
    files = {
        f"{ending.upper()} {theme.name}": f"{name}-{theme.name}.{ending}"
        for ending in reversed(_ENDINGS)
        for theme in THEMES
    }
    return files | {
        f"PDF {shape.name}, {shape.width} in": f"{name}-{shape.name}.pdf" for shape in _PAPERS
    }


def render(drawing: Drawing, theme: Theme, shape: Shape, endings: Iterable[str]) -> list[bytes]:
    """Draws a figure. Returns the bytes of one file per ending: png, svg or pdf."""
    files = []
    with matplotlib.rc_context(settings(theme)):
        figure = drawing.draw(theme, shape)
        for ending in endings:
            buffer = io.BytesIO()
            figure.savefig(buffer, format=ending, dpi=_PNG_DPI, metadata=_FACTS[ending])
            figure.set_layout_engine("none")  # the layout is done; later formats keep it
            files.append(buffer.getvalue())
    return files


def write_files(drawing: Drawing, folder: Path) -> dict[str, str]:
    """Writes the files of a figure. Returns data URIs by theme and shape, such as light-wide."""
    found = {}
    for theme in THEMES:
        wide = render(drawing, theme, WIDE, _ENDINGS)
        for ending, picture in zip(_ENDINGS, wide):
            (folder / f"{drawing.name}-{theme.name}.{ending}").write_bytes(picture)
        (narrow,) = render(drawing, theme, NARROW, ("svg",))
        for shape, picture in ((WIDE, wide[0]), (NARROW, narrow)):
            data = base64.b64encode(picture).decode()
            found[f"{theme.name}-{shape.name}"] = f"data:image/svg+xml;base64,{data}"
    for shape in _PAPERS:
        (picture,) = render(drawing, LIGHT, shape, ("pdf",))
        (folder / f"{drawing.name}-{shape.name}.pdf").write_bytes(picture)
    return found
