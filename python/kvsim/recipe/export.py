"""Recipes in the forms that other programs run."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import KvsimError, UsageError
from ..files.outputs import replaceable
from ..files.partial import written_whole
from .arrays import lukv_array
from .file import read_recipe
from .kvpress_code import kvpress_code
from .pages import page_configuration

_WRITERS = {"kvpress": kvpress_code, "lukv": lukv_array, "pages": page_configuration}
_CONTENTS = {
    "kvpress": (b'"""', "code of a press"),
    "lukv": (b"\x93NUMPY", "array"),
    "pages": (b'{\n  "page_size"', "configuration of pages"),
}
FORMS = tuple(_WRITERS)


def export_recipe(path: str | os.PathLike[str], to: str, output: str | os.PathLike[str]) -> Path:
    """Writes a recipe in a form that another program takes.

    Parameters
    ----------
    path : path
        Of the recipe.
    to : {"kvpress", "lukv", "pages"}
        "kvpress": a Python module whose `press` keeps the same tokens. "lukv": the array [99,
        layers, KV heads] of the recipe's split `@file`, which LUKVPress reads. "pages": JSON with
        the size of a page, the budget in pages or as a share, and the policy.
    output : path
        The file to write. An earlier one of the same form is replaced, any other is not.

    Returns
    -------
    pathlib.Path
        The path of the file.

    Raises
    ------
    UsageError
        With the reason, for a recipe that has no such form.
    DataError
        For a file that is no recipe, and for a split that has changed.
    KvsimError
        For a file that cannot be written.

    Examples
    --------
    >>> kvsim.export_recipe("tuned/recipe.yaml", to="kvpress", output="press.py")
    """
    if to not in _WRITERS:
        raise UsageError(f"to: expected one of {', '.join(FORMS)}, found {to}")
    contents = _WRITERS[to](read_recipe(path))
    begin, what = _CONTENTS[to]
    output = replaceable(output, "output", what, lambda file: file.read_bytes().startswith(begin))
    data = contents if isinstance(contents, bytes) else contents.encode()
    with written_whole(output) as partial:
        try:
            partial.write_bytes(data)
        except OSError as error:
            raise KvsimError(f"{output}: cannot be written: {error.strerror}") from error
    return output
