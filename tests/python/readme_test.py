"""What the main README shows of Python works, and the pages of the package name all arguments."""

import ast
import importlib.util
import inspect
import re
from functools import reduce

import pytest

import kvsim
from conftest import HERE
from kvsim.verbs.options import Options

ROOT = HERE.parents[1]
PAGES = {page.name: page.read_text() for page in sorted((ROOT / "python").glob("*.md"))}
OF_MODELS = (
    "calibrated_kl closed_loop_steps evaluate evicting kept_overlap_by_layer layer_interaction "
    "layer_weights rank_correlations recording refined_budgets"
)
# Each function of the package, and the one that makes a trace of arrays.
FUNCTIONS = [
    *(name for name in kvsim.__all__ if inspect.isfunction(getattr(kvsim, name))),
    *OF_MODELS.split(),
    "Trace.from_arrays",
]
# Those with few arguments, whose call in a sentence says all.
IN_A_SENTENCE = "from_kvpress get_include load load_plugin policies run".split()


def documented(name):
    return reduce(getattr, name.split("."), kvsim)


def section_of(name):
    """The text below the heading of a function, down to the next heading."""
    heading = rf"^#+ `kvsim\.{re.escape(name)}`\n(.*?)(?=^#|\Z)"
    found = [re.search(heading, page, re.DOTALL | re.MULTILINE) for page in PAGES.values()]
    (section,) = [match[1] for match in found if match]
    return section


def python_blocks(text):
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def lines_of(text):
    """Without what pandas fills up lines with."""
    return [line.rstrip() for line in text.splitlines()]


def test_the_python_of_the_readme_prints_what_stands_below_it(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    text = (ROOT / "README.md").read_text()
    ((block, printed),) = re.findall(r"```python\n(.*?)```\n+```text\n(.*?)```", text, re.DOTALL)
    assert python_blocks(text) == [block]
    exec(block, {})
    assert lines_of(capsys.readouterr().out) == lines_of(printed)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in IN_A_SENTENCE])
def test_the_pages_name_every_argument(name):
    if name in OF_MODELS.split():
        pytest.importorskip("torch")
    arguments = list(inspect.signature(documented(name)).parameters)
    section = section_of(name)
    assert [each for each in arguments if f"`{each}`" not in section] == []


def test_the_pages_name_every_option_and_function():
    section = PAGES["engine.md"]
    assert [each for each in Options.__annotations__ if f"`{each}`" not in section] == []
    text = "".join(PAGES.values())
    assert [name for name in FUNCTIONS if f"kvsim.{name}" not in text] == []


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_show_python_that_there_is(page):
    for block in python_blocks(PAGES[page]):
        ast.parse(block)
    shown = set(re.findall(r"\bkvsim\.([A-Za-z_]+)\(", PAGES[page]))
    assert shown <= set(dir(kvsim))


def test_the_page_of_the_wheel_leads_nowhere_outside_it():
    project = (ROOT / "pyproject.toml").read_text()
    page = (ROOT / re.search(r'^readme = "(.*)"', project, re.MULTILINE)[1]).read_text()
    links = re.findall(r"\]\(([^)]*)\)", page)
    assert [link for link in links if not link.startswith("https://")] == []
    assert 'pip install "' not in page and "pip install ." not in page
    extras = re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)
    declared = re.search(r"\[project.optional-dependencies\]\n(.*?)\n\n", project, re.DOTALL)[1]
    assert sorted(extras) == sorted(re.findall(r"^([a-z-]+) =", declared, re.MULTILINE))
    for command in set(re.findall(r"python -m kvsim\.([a-z_]+)", page)):
        assert importlib.util.find_spec(f"kvsim.{command}") is not None


def test_no_message_asks_for_an_extra_of_the_source_folder():
    modules = (ROOT / "python" / "kvsim").rglob("*.py")
    assert [path.name for path in modules if 'pip install ".[' in path.read_text()] == []
