"""Builds the site: python build.py OUTPUT. See README.md."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import navigation
import reference
from stage import ROOT, Stage, place

HERE = Path(__file__).resolve().parent
_HEADER = "sim/plugin/include/kvsim/plugin.h"
# What a browser would fetch from elsewhere: the site must be whole without a network.
_FETCHED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\"'>\s]+"
    r"|<link\b(?![^>]*rel=\"canonical\")[^>]*\bhref=[\"']?(?:https?:)?//[^\"'>\s]+"
)


def stage(source: Path) -> list[str]:
    """Writes all that Sphinx reads, and returns the faults of the links."""
    shutil.rmtree(source, ignore_errors=True)
    stage = Stage(source)
    stage.write()
    stage.put("plugin_header.md", header_page())
    reference.stage(stage.put)
    navigation.stage(stage.put, [place(name) for name in stage.pages])
    index = source / "index.md"
    index.write_text(index.read_text() + "\n" + (source / "navigation.txt").read_text())
    (source / "_static").mkdir()
    shutil.copy(HERE / "site.css", source / "_static")
    return stage.faults


def header_page() -> str:
    text = (ROOT / _HEADER).read_text()
    lead = "`kvsim/plugin.h`: [how it is used](sim/plugin/README.md)."
    return f"# The C header of plug-ins\n\n{lead}\n\n```c\n{text}```\n"


def sphinx(source: Path, output: Path, work: Path) -> int:
    mocked = [name for name in ("torch", "transformers") if not importlib.util.find_spec(name)]
    settings = {"KVSIM_DOCS_MOCKED": ",".join(mocked), "KVSIM_DOCS_SOURCE": str(source)}
    run = subprocess.run(
        [sys.executable, "-m", "sphinx", "-c", str(HERE), "-b", "html", "-j", "auto", "-q", "-W",
         "--keep-going", "-d", str(work / "doctrees"), str(source), str(output)],
        env=os.environ | settings | {"PYTHONDONTWRITEBYTECODE": "1"},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    # Lines of a copy are those of the page.
    print(run.stderr.replace(f"{source}/", ""), end="", file=sys.stderr)
    return run.returncode


def fetched(output: Path) -> list[str]:
    pages = sorted(output.rglob("*.html"))
    found = [(page, match[0]) for page in pages for match in _FETCHED.finditer(page.read_text())]
    return [f"{page.relative_to(output)}: needs the network: {match}" for page, match in found]


def main(output: Path) -> int:
    work = output.with_name(output.name + "-work")
    missing = reference.missing_names()
    faults = [f"reference.py: {name}: in no group, or not public" for name in missing]
    faults += stage(work / "source")
    shutil.rmtree(output, ignore_errors=True)
    status = sphinx(work / "source", output, work)
    faults += fetched(output)
    print("\n".join(faults), end="\n" if faults else "", file=sys.stderr)
    return 1 if status or faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
