"""The site is not built with a link or an anchor that leads nowhere."""

import shutil
import sys

import pytest

from conftest import HERE

IN_A_CHECKOUT = (HERE.parents[1] / ".git").exists()
DOCS = HERE.parents[1] / "python" / "docs"


@pytest.fixture
def docs(monkeypatch):
    """The modules that make the site, which are not a part of the package."""
    if not IN_A_CHECKOUT:
        pytest.skip("git lists the pages of the site")
    pytest.importorskip("myst_nb")
    pytest.importorskip("furo")
    monkeypatch.syspath_prepend(DOCS)
    names = ["build", "listing", "navigation", "reference", "stage"]
    before = {name: sys.modules.pop(name, None) for name in names}
    import build
    import stage

    yield build, stage
    for name, module in before.items():
        sys.modules.pop(name, None)
        if module:
            sys.modules[name] = module


def test_links_of_pages_lead_to_where_things_are_on_the_site(docs, tmp_path):
    _, stage = docs
    site = stage.Stage(tmp_path)
    page = [
        "[a](../../python/README.md#install)",
        "[b](../../policies)",
        "[c](../../policies/lfu.cpp)",
    ]
    page += ["```", "[no link](of/code.md)", "```", "[web](https://example.org/x.md)", "[here](#a)"]
    lines = list(site.lines("python/docs/install.md", page))
    assert lines[:2] == ["[a](python/README.md#install)", "[b](policies/README.md)"]
    assert lines[2] == "[c](static:source/policies/lfu.cpp.html)"
    assert lines[3:] == page[3:]
    assert site.faults == []
    site.write_listings()
    assert "lfu_policy" in (tmp_path / "_extra/source/policies/lfu.cpp.html").read_text()


def test_a_link_to_a_file_that_is_not_there_is_named_with_its_line(docs, tmp_path):
    _, stage = docs
    site = stage.Stage(tmp_path)
    list(site.lines("sim/README.md", ["# Title", "", "Read [this](nowhere.md)."]))
    assert site.faults == [
        "sim/README.md:3: nowhere.md is not a file or folder of the repository"
    ]  # fmt: skip


def test_sphinx_fails_at_an_anchor_that_is_not_there(docs, tmp_path, capsys):
    build, _ = docs
    source = tmp_path / "source"
    (source / "_static").mkdir(parents=True)
    (source / "_extra").mkdir()
    shutil.copy(DOCS / "site.css", source / "_static")
    (source / "index.md").write_text("# Title\n\n## Part\n\n[fine](#part)\n\n[broken](#nowhere)\n")
    assert build.sphinx(source, tmp_path / "html", tmp_path) != 0
    complaints = capsys.readouterr().err
    assert "index.md:7" in complaints and "nowhere" in complaints
    assert "#part" not in complaints


def test_a_page_that_fetches_from_elsewhere_is_a_fault(docs, tmp_path):
    build, _ = docs
    page = tmp_path / "a.html"
    page.write_text('<a href="https://example.org">fine</a><script src="js/own.js"></script>')
    assert build.fetched(tmp_path) == []
    page.write_text('<script src="https://example.org/plot.js"></script>')
    assert build.fetched(tmp_path) == [
        'a.html: needs the network: <script src="https://example.org/plot.js'
    ]  # fmt: skip
