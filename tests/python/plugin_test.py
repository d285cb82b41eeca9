"""Plug-ins, compiled against the header that the package brings."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kvsim

ENGINE = pytest.importorskip("kvsim._engine")
EXAMPLES = Path(__file__).parents[1] / "package"
SAMPLE = Path(__file__).parents[2] / "traces" / "sample" / "tiny-llama.h5"
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
        with pytest.raises(kvsim.DataError, match=f"{file.name}: expected a plug-in") as raised:
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


def test_a_policy_of_a_plugin_is_swept_with_the_built_in_ones(built):
    kvsim.load_plugin(built("decayed_attention"))
    specs = ["h2o", "decayed-attention:decay=1", "decayed-attention:decay=0.5"]
    misses = []
    for spec in specs:
        frame = kvsim.sweep(SAMPLE, policies=[spec], budgets=[24], layers=1, progress=False)
        misses.append(frame.token_misses.tolist())
    assert misses[0] == misses[1]
    assert misses[0] != misses[2]
    listed = kvsim.policies().set_index("name")
    assert listed.loc["decayed-attention"].source.startswith("H2O")


def test_an_analysis_of_a_plugin_gives_a_frame(built):
    kvsim.load_plugin(built("key_norms"))
    norms = kvsim.analyze(SAMPLE, what="key-norms:from=2", layers=0, progress=False)["key_norms"]
    row = norms[(norms.sequence == "copied-segment") & (norms.kv_head == 1)].iloc[0]
    unit = kvsim.Trace(SAMPLE).unit("copied-segment", layer=0, kv_head=1)
    assert row.mean_norm == pytest.approx(np.linalg.norm(unit.key[2:], axis=1).mean(), rel=1e-5)
