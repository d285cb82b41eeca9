"""The catalogue says what the files are, its page is derived from it, and what it makes is so."""

import hashlib
import json

import pytest

import kvsim
from conftest import HERE
from kvsim.catalogue.__main__ import main
from kvsim.catalogue.entries import entries
from kvsim.catalogue.page import listing

ROOT = HERE.parents[1]
LISTED = entries()


def test_the_page_is_what_the_command_prints():
    page = (ROOT / "traces/catalogue.md").read_text()
    shown = page.partition("<!-- catalogue -->\n")[2].partition("<!-- end of catalogue -->")[0]
    assert shown == listing("markdown")


@pytest.mark.parametrize("name", [name for name in LISTED if LISTED[name].file])
def test_a_file_of_the_source_folder_has_the_listed_digests(name):
    entry = LISTED[name]
    contents = (ROOT / entry.file).read_bytes()
    assert (len(contents), hashlib.sha256(contents).hexdigest()) == (entry.bytes, entry.sha256)
    assert kvsim.Trace(ROOT / entry.file).trace_id == entry.trace_id


def test_the_listed_texts_are_those_of_the_source_folder():
    for entry in LISTED.values():
        texts = (entry.make or {}).get("texts")
        if texts:
            contents = (ROOT / texts["file"]).read_bytes()
            assert hashlib.sha256(contents).hexdigest() == texts["sha256"], entry.name
            assert entry.sequences == texts.get("first", len(contents.splitlines()))


def test_the_list_has_every_trace_in_every_format(capsys):
    assert [*kvsim.catalogue().name] == [*LISTED]
    for form in ("text", "csv", "json", "markdown"):
        assert main(["--format", form]) == 0
        printed = capsys.readouterr().out
        assert [name for name in LISTED if name not in printed] == []
    assert len(json.loads(listing("json"))) == len(LISTED)


def test_a_synthetic_trace_is_made_with_the_listed_id(tmp_path):
    made = kvsim.make_trace("synthetic", tmp_path / "t.h5")
    assert made.trace.trace_id == LISTED["synthetic"].trace_id
    assert made.verdict == "synthetic: trace_id is the listed one"
    assert [file.name for file in tmp_path.iterdir()] == ["t.h5"]


def test_a_recorded_trace_is_made_from_the_listed_texts(tmp_path, capsys):
    pytest.importorskip("torch")
    output = tmp_path / "t.h5"
    assert main(["make", "tiny-retriever", "-o", str(output), "--source", str(ROOT)]) == 0
    assert "tiny-retriever: trace_id" in capsys.readouterr().out
    listed = kvsim.Trace(ROOT / LISTED["tiny-retriever"].file)
    mine, its = (each.unit("eight-facts-2", 3, 1) for each in (kvsim.Trace(output), listed))
    assert mine.key.shape == its.key.shape
    assert abs(mine.key - its.key).max() < 0.05


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["get"], "expected a name"),
        (["make", "smollm"], "did you mean 'smollm2-"),
        (["get", "tiny-llama", "--source", "."], "--source: kvsim traces get has no such"),
        (["make", "tiny-llama"], "its model is not published"),
        (
            ["make", "tiny-retriever"],
            "name the source folder of kvsim (--source, or the argument source)",
        ),
        (["get", "synthetic"], "nobody has published"),
        (["get", "tiny-llama"], "KVSIM_TRACES_URL"),
        (
            ["get", "tiny-llama", "--url", "ftp://host/x"],
            "the URL of the server: expected the URL of a folder",
        ),
    ],
)
def test_wrong_usage_is_one_line_with_the_fix(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("KVSIM_TRACES_URL", raising=False)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert [*tmp_path.iterdir()] == []
