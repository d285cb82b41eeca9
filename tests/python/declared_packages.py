"""Packages that declare policies and selectors, written into a folder of sys.path."""

import importlib
import sys

import pytest

from kvsim.policy import entry_points, packages

POLICY = """
import kvsim

class {cls}(kvsim.Policy):
    "Tokens with the most attention of late."
    name = "{name}"

    def __init__(self, budget, seed=0, decay=0.9):
        self.decay = decay

    def update(self, step, scores):
        scores *= self.decay
        scores += step.attention
"""
SELECTOR = """
import kvsim

class Newest(kvsim.Selector):
    name = "newest-pages"

    def __init__(self, k=8, page=4):
        self.count = -(-k // page)

    def choose(self, step):
        return step.pages[-self.count:]
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Writes a package with its metadata into a folder of sys.path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("KVSIM_NO_PLUGINS", raising=False)
    modules = []

    def installed(package, source, version="1.2", **groups):
        module = package.replace("-", "_")
        modules.append(module)
        (tmp_path / f"{module}.py").write_text(source)
        for old in tmp_path.glob(f"{module}-*.dist-info/*"):
            old.unlink()
        info = tmp_path / f"{module}-{version}.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
        )
        lines = [f"[kvsim.{group}]\n{line}" for group, line in groups.items()]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        forget()
        return tmp_path

    yield installed
    for module in modules:
        sys.modules.pop(module, None)
    forget()


def forget():
    packages._read.cache_clear()
    entry_points._failures.clear()
    importlib.invalidate_caches()
