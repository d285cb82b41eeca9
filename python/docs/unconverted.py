"""Docstrings that have no numpydoc sections yet appear as they are, and are not validated.

When all have sections, this file goes, and its CHECKS move to conf.py.
"""

import inspect
import re

# Empty while docstrings without sections are left: numpydoc validates all or none.
# Then: "GL06 GL07 PR01 PR02 PR03 PR04 RT01 RT03 YD01".split()
CHECKS = []
_SECTION = re.compile(r"^\s*-{3,}\s*$", re.MULTILINE)


def as_plain_text(app, what, name, obj, options, lines):
    """Shows a docstring without sections as a block of text: its indents mean nothing to Sphinx."""
    text = inspect.getdoc(obj) if callable(obj) or isinstance(obj, property) else None
    if text and not _SECTION.search(text):
        block = [f"   {line}".rstrip() for line in text.split("\n")]
        lines[:] = [".. code-block:: text", "", *block, ""]
