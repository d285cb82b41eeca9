"""Pages of plain HTML for source files that the pages link to: highlighted, with line numbers."""

from html import escape
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name} - kvsim</title>
<style>
body {{ font-family: sans-serif; margin: 1rem auto; max-width: 70rem; padding: 0 1rem; }}
pre {{ font-size: 0.85rem; line-height: 1.4; overflow-x: auto; }}
.linenos {{ color: #767676; padding-right: 1rem; user-select: none; }}
{style}
</style>
<p><a href="{root}index.html">kvsim</a> / {name}</p>
{body}
</html>
"""
_FORMATTER = HtmlFormatter(style="tango", linenos="inline", lineanchors="line")
_HIGHLIGHTED_BYTES = 200_000  # larger ones are data: shown whole, but without colours


def page(name: str, body: str) -> str:
    """A page for what has this path in the repository, to be stored as _extra/source/NAME.html."""
    style = _FORMATTER.get_style_defs(".highlight")
    return _PAGE.format(
        name=escape(name), root="../" * (name.count("/") + 1), style=style, body=body
    )


def of_file(root: Path, name: str) -> str:
    """The page of a file of the repository."""
    try:
        text = (root / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        size = (root / name).stat().st_size
        return page(name, f"<p>A binary file of {size:,} bytes: see the source archive.</p>")
    try:
        lexer = get_lexer_for_filename(name)
    except ClassNotFound:
        lexer = TextLexer()
    if len(text) > _HIGHLIGHTED_BYTES:
        lexer = TextLexer()
    return page(name, highlight(text, lexer, _FORMATTER))


def of_folder(name: str, files: list[str]) -> str:
    """The page of a folder without a README: its files, whose pages are needed, too."""
    inside = [file[len(name) + 1 :] for file in files]
    last = name.rsplit("/", 1)[-1]
    items = "".join(f'<li><a href="{last}/{file}.html">{escape(file)}</a></li>' for file in inside)
    return page(name, f"<ul>{items}</ul>")
