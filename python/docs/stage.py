"""Copies the pages of the repository to where Sphinx reads them, with links that work on the site.

Lines keep their numbers, so what Sphinx says of a copy holds for the page itself.
"""

import os
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path

import listing

ROOT = Path(__file__).resolve().parents[2]
PAGES = "python/docs/"
_LINK = re.compile(r"(\]\()([^)#\s]*)(#[^)\s]*)?(\))")
_FENCE = re.compile(r"^\s*(```+|~~~+)")
_IMAGES = (".png", ".svg", ".jpg")


def tracked(*patterns: str) -> list[str]:
    """Files of the repository, also those that are new, as paths below its root."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if listed.returncode:
        raise SystemExit(f"docs: git lists the pages, and found: {listed.stderr.strip()}")
    found = listed.stdout
    return sorted({name for name in found.splitlines() if (ROOT / name).is_file()})


def place(name: str) -> str:
    """Where a page lies on the site: that of python/docs at the top, all others where they are."""
    if name.startswith(PAGES) and name != PAGES + "README.md":
        return name.removeprefix(PAGES)
    return name


class Stage:
    """Copies pages into a folder; `faults` lists links that lead nowhere, as FILE:LINE: text."""

    def __init__(self, target: Path):
        self.target = target
        self.files = set(tracked())
        self.pages = [name for name in self.files if name.endswith((".md", ".ipynb"))]
        self.pages = sorted(name for name in self.pages if not name.startswith("tests/python/"))
        self.listed = set()  # source files and folders that get a page
        self.faults = []

    def write(self) -> None:
        for name in self.pages:
            text = (ROOT / name).read_text(encoding="utf-8")
            if name.endswith(".ipynb"):
                # In JSON, links of code and data would look alike: those of folders are not used.
                copy = text
            else:
                copy = "\n".join(self.lines(name, text.split("\n")))
            self.put(place(name), copy)
        self.write_listings()

    def put(self, name: str, text: str) -> None:
        path = self.target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def lines(self, name: str, lines: list[str]):
        fence = None
        for number, line in enumerate(lines, 1):
            mark = _FENCE.match(line)
            if fence is None and mark:
                fence = mark[1]
            elif fence is not None and line.strip() == fence:
                fence = None
            elif fence is None:
                line = _LINK.sub(partial(self.link, name, number), line)
            yield line

    def link(self, name: str, number: int, link: re.Match) -> str:
        before, path, anchor, after = link.groups()
        if not path or "://" in path or path.startswith("mailto:"):
            return link[0]
        full = os.path.normpath(os.path.join(os.path.dirname(name), path))  # noqa: PTH118, PTH120
        found = self.destination(full)
        if found is None:
            self.faults.append(f"{name}:{number}: {path} is not a file or folder of the repository")
            return link[0]
        start = os.path.dirname(place(name)) or "."  # noqa: PTH120
        relative = os.path.relpath(found, start)
        static = not found.endswith((".md", ".ipynb", *_IMAGES))
        return f"{before}{'static:' if static else ''}{relative}{anchor or ''}{after}"

    def destination(self, full: str) -> str | None:
        """Where on the site a path of the repository lies; None if there is none."""
        if f"{full}/README.md" in self.files:
            return place(f"{full}/README.md")
        if full == "notebooks":
            return "notebooks/index.md"
        if full in self.pages:
            return place(full)
        if full in self.files and full.endswith(_IMAGES):
            copy = self.target / full
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / full, copy)
            return full
        if full in self.files and full.endswith(".html"):
            copy = self.target / "_extra/source" / full
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / full, copy)
            return f"source/{full}"
        if full in self.files or any(file.startswith(f"{full}/") for file in self.files):
            self.listed.add(full)
            return f"source/{full}.html"
        return None

    def write_listings(self) -> None:
        for name in sorted(self.listed):
            inside = sorted(file for file in self.files if file.startswith(f"{name}/"))
            if inside:
                self.put(f"_extra/source/{name}.html", listing.of_folder(name, inside))
            for file in inside or [name]:
                self.put(f"_extra/source/{file}.html", listing.of_file(ROOT, file))
