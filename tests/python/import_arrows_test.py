"""Imports of the package point down the table of rooms, as includes of C++ do (tests/house)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "python"

# What stands below all rooms: the compiled module, and the paired bootstrap.
BELOW = "_engine bootstrap"
EVERYTHING = "everything below"

# From the top down. A room stands for its own files, not for those of the rooms in it; the first
# one has the files of the package itself. What a room may import stands below it.
ROOMS = {
    "": EVERYTHING,
    "reproduce": "report.numbers closed_loop model files command errors",
    "tune": "recipe report.style closed_loop record model verbs results trace files command errors",
    "recipe": "files command errors",
    "tasks": "tasks.asking tasks.synthetic closed_loop record results trace files command errors",
    "tasks.asking": "closed_loop closed_loop.evicting_model model verbs results trace "
    "command errors",
    "tasks.synthetic": "model trace files command errors",
    "lm_eval": "closed_loop closed_loop.evicting_model record model verbs command errors",
    "report": "report.figures report.numbers report.style results files command errors",
    "report.figures": "report.numbers report.style closed_loop results trace errors",
    "report.numbers": "report.style closed_loop verbs results trace errors",
    "report.style": "policy",
    "head_budgets.refined": "closed_loop head_budgets verbs trace files errors",
    "catalogue": "record verbs trace program files command errors",
    "closed_loop": "closed_loop.evicting_model record model verbs policy trace results files "
    "command errors",
    "closed_loop.evicting_model": "model errors",
    "kvpress": "model policy errors",
    "imports": "record trace files command errors",
    "record": "model trace files command errors",
    "second_reading": "model verbs trace files command errors",
    "model": "trace files errors",
    "train": "labels verbs policy trace files command errors",
    "labels": "verbs trace files command errors",
    "head_budgets": "verbs trace results files command errors",
    "results.export": "results files command errors",
    "verbs": "executors policy trace results errors",
    "executors": "policy trace results errors",
    "policy": "errors",
    "trace": "errors",
    "results": "program files errors",
    "program": "errors",
    "command": "errors",
    "files": "errors",
    "errors": "",
    "bootstrap": "",
    "_engine": "",
}
MOST_FILES = 25  # in a room


def modules() -> dict[str, str]:
    """The text of each module, by its name within the package; `room.` is the package of a room."""
    found = {}
    for path in sorted((SOURCE / "kvsim").rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE / "kvsim").with_suffix("").parts)
        found[name.removesuffix("__init__")] = path.read_text()
    return found


def room_of(module: str) -> str:
    """The most specific room that holds the module."""
    while module and module.rstrip(".") not in ROOMS:
        module = module.rpartition(".")[0]
    return module.rstrip(".")


def imports_of(module: str, text: str, known: set[str]) -> set[str]:
    """The modules of the package that one imports, in functions and for types too."""
    package = ["kvsim", *module.split(".")[:-1]]
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            whole = ".".join([*base, *filter(None, [node.module])])
            found |= {f"{whole}.{alias.name}" for alias in node.names}
    own = {name.removeprefix("kvsim").removeprefix(".") for name in found if _is_ours(name)}
    return {_module_of(name, known) for name in own}


def _is_ours(name: str) -> bool:
    return name.split(".")[0] == "kvsim"


def _module_of(name: str, known: set[str]) -> str:
    """The module that a name is of: itself, the package of that name, or what holds it."""
    if name in known or name == "_engine":
        return name
    if f"{name}." in known:
        return f"{name}."
    above = name.rpartition(".")[0]
    return _module_of(above, known) if above else ""


def may_import(room: str, other: str) -> bool:
    allowed = f"{ROOMS[room]} {BELOW}".split()
    return other in (room, *allowed) or ROOMS[room] == EVERYTHING


def upward_imports(module: str, text: str, known: set[str]) -> list[str]:
    room = room_of(module)
    return [
        f"{module} imports {other or 'kvsim'}"
        for other in sorted(imports_of(module, text, known))
        if not may_import(room, room_of(other))
    ]


def cycle_in(arrows: dict[str, set[str]]) -> list[str]:
    """Modules of which each imports the next and the last one the first; none: an empty list."""
    done: set[str] = set()

    def search(module: str, path: list[str]) -> list[str]:
        if module in path:
            return path[path.index(module) :]
        if module in done:
            return []
        for other in sorted(arrows.get(module, ())):
            if found := search(other, [*path, module]):
                return found
        done.add(module)
        return []

    return next(filter(None, (search(module, []) for module in sorted(arrows))), [])


def test_imports_point_down_the_table_of_rooms():
    texts = modules()
    assert len(texts) > 100
    wrong = []
    for name, text in texts.items():
        wrong += upward_imports(name, text, {*texts})
    assert wrong == []


def test_the_table_stands_from_the_top_down():
    order = [*ROOMS]
    for room, allowed in ROOMS.items():
        if allowed != EVERYTHING:
            below = order[order.index(room) + 1 :]
            assert [name for name in allowed.split() if name not in below] == [], room


def test_no_modules_import_each_other():
    texts = modules()
    arrows = {name: imports_of(name, text, {*texts}) - {name} for name, text in texts.items()}
    assert cycle_in(arrows) == []


def test_every_folder_is_a_room_of_few_files_and_says_what_it_is():
    rooms: dict[str, int] = {}
    for name in modules():
        folder = name.rpartition(".")[0]
        assert folder in ROOMS, f"{name}: its folder has no rule in this test"
        rooms[folder] = rooms.get(folder, 0) + 1
    assert {room: files for room, files in rooms.items() if files > MOST_FILES} == {}
    for room in rooms:
        folder = SOURCE / "kvsim" / room.replace(".", "/")
        page = folder / "README.md"
        about = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
        about = page.read_text().replace("**", "") if page.exists() else about
        if room:  # python/README.md is the page of the package
            assert [part for part in ("In:", "Out:", "Read first:") if part not in about] == [], (
                room
            )


KNOWN = {
    "",
    "sweep",
    "trace.",
    "trace.trace",
    "verbs.sweep",
    "errors.",
    "errors.kinds",
    "model.",
    "verbs.",
}


@pytest.mark.parametrize(
    ("module", "text", "faults"),
    [
        ("errors.kinds", "from ..trace import Trace", ["errors.kinds imports trace."]),
        ("trace.trace", "def f():\n  from ..verbs.sweep import sweep", 1),
        ("trace.trace", "if TYPE_CHECKING:\n  from .. import verbs", 1),
        ("trace.trace", "import kvsim", ["trace.trace imports kvsim"]),
        ("trace.trace", "from kvsim import sweep", 1),
        ("trace.trace", "from kvsim.verbs.sweep import sweep", 1),
        ("trace.", "from ..model import x", 1),
        ("trace.trace", "from ..errors import DataError\nfrom .. import _engine", []),
        ("verbs.sweep", "from ..trace.trace import Trace\nimport numpy", []),
    ],
)
def test_an_upward_import_is_caught(module, text, faults):
    found = upward_imports(module, text, KNOWN)
    assert found == faults or len(found) == faults


def test_a_cycle_is_caught():
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]
    assert cycle_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
