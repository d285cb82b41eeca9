"""Plug-ins, compiled against the header that the package brings."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kvsim

ENGINE = pytest.importorskip("kvsim._engine")
EXAMPLES = Path(__file__).parents[1] / "package"
COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A function that compiles an example and returns the plug-in."""
    folder = tmp_path_factory.mktemp("plugins")

    def build(name: str) -> Path:
        plugin = folder / f"lib{name}.so"
        if not plugin.exists():
            include = f"-I{kvsim.get_include()}"
            command = [COMPILER, "-std=c99", "-shared", "-fPIC", include, EXAMPLES / f"{name}.c"]
            subprocess.run([*command, "-o", plugin, "-lm"], check=True)
        return plugin

    return build


def test_loading_a_plugin_names_what_it_registered(built):
    plugin = kvsim.load_plugin(built("decayed_attention"))
    assert plugin == kvsim.load_plugin(str(built("decayed_attention")))
    assert plugin.policies == ["decayed-attention"]
    assert plugin.analyses == []
    assert kvsim.load_plugin(built("key_norms")).analyses == ["key-norms"]


def test_a_file_that_is_no_plugin_raises_an_error_that_names_it(tmp_path):
    text = tmp_path / "text.so"
    text.write_text("no library")
    for file in (text, tmp_path / "none.so"):
        with pytest.raises(Exception, match=f"{file.name}: expected a plug-in") as raised:
            kvsim.load_plugin(file)
        assert "\n" not in str(raised.value)


def test_a_plugin_is_compiled_against_the_package_alone(built):
    include = Path(kvsim.get_include())
    assert (include / "kvsim" / "plugin.h").is_file()
    header = subprocess.run(
        [COMPILER, "-std=c99", "-pedantic-errors", "-Wall", "-Werror", "-fsyntax-only", "-xc", "-"],
        input="#include <kvsim/plugin.h>\n",
        env={"CPATH": str(include), "PATH": str(Path(COMPILER).parent)},
        text=True,
        check=False,
        stderr=sys.stderr,
    )
    assert header.returncode == 0
