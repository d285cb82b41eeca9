"""The site's navigation: sections of pages, in the order in which strangers need them.

A page that is in no section here joins the last one, below its top folder, so that each README
appears once and a new one needs no line.
"""

FIRST = ["install", "first_comparison", "your_model", "your_policy", "your_cluster"]

# Caption, pages without their extension. `api/index` and `program` are made by reference.py.
SECTIONS = {
    "First steps": FIRST,
    "By example": ["README", "notebooks/index"],
    "Python": [
        "python/README",
        "python/engine",
        "python/own_policies",
        "python/record",
        "python/catalogue",
        "python/import",
        "python/closed_loop",
        "python/results",
        "python/executors",
        "python/tune",
        "python/train",
        "python/allocation",
        "python/kvpress",
        "python/lm_eval",
        "python/architectures",
    ],
    "Reference": [
        "sim/cli/README",
        "program",
        "api/index",
        "plugin_header",
        "policies/README",
        "sim/results/columns",
        "traces/README",
        "traces/catalogue",
        "traces/sample/README",
        "traces/synth/README",
    ],
    "Explanations": [
        "sim/results/comparisons",
        "analysis/README",
        "oracle/README",
        "notebooks/study/README",
        "notebooks/results/README",
        "notebooks/results/table",
        "analysis/papers",
        "analysis/baselines",
        "policies/paper_orderings",
        "policies/new_policies",
        "policies/without_heavy_hitters",
        "policies/stores",
        "policies/rest",
        "policies/merging/merge",
        "sim/tiers/misses",
        "sim/replay/long",
        "sim/replay/pages",
        "sim/sweep/cluster",
        "sim/sweep/costs",
        "analysis/cost/README",
        "analysis/mlp",
        "analysis/scissorhands",
        "analysis/subgen",
    ],
    "For contributors": [
        "CONTRIBUTING",
        "python/release",
        "sim/README",
        "tests/faults/README",
        "tests/conformance/README",
        "tests/bench/README",
        "CHANGELOG",
    ],
}
_TITLES = {"README": "What kvsim finds"}  # where a page's own says little in a list
_FOLDERS = {
    "analysis": "Rooms of the analyses",
    "gpu": "Rooms of the GPU's back-end",
    "oracle": "Rooms of the oracles",
    "policies": "Rooms of the policies",
    "python": "Rooms of the Python package",
    "sim": "Rooms of the engine",
    "traces": "Rooms of the traces",
}


def toctree(pages: list[str], caption: str = "", depth: int = 1) -> str:
    """A list of pages for Sphinx; with a caption it shows in the navigation alone."""
    options = f":caption: {caption}\n:hidden:\n" if caption else ""
    lines = [f"{_TITLES[page]} <{page}>" if page in _TITLES else page for page in pages]
    return f"```{{toctree}}\n:maxdepth: {depth}\n{options}\n" + "\n".join(lines) + "\n```\n"


def stage(put, pages: list[str]) -> None:
    """Adds the notebooks' page, those of the rooms, and the navigation below index.md's text.

    put(name, text) writes a page; `pages` are all others that are there, as paths with extensions.
    """
    names = [page.rsplit(".", 1)[0] for page in pages]
    notebooks = [f"/{name}" for name in names if f"{name}.ipynb" in pages]
    put("notebooks/index.md", "# Notebooks\n\n" + toctree(notebooks))
    shown = {page for section in SECTIONS.values() for page in section} | {"index"}
    rest = [name for name in names if name not in shown and f"{name}.md" in pages]
    sections = {caption: list(pages) for caption, pages in SECTIONS.items()}
    for folder in sorted({name.split("/")[0] for name in rest}):
        inside = [f"/{name}" for name in rest if name.split("/")[0] == folder]
        title = _FOLDERS.get(folder, f"Rooms of {folder}")
        put(f"rooms/{folder}.md", f"# {title}\n\n" + toctree(inside))
        sections["For contributors"].append(f"rooms/{folder}")
    put("navigation.txt", "\n".join(toctree(p, caption=c) for c, p in sections.items()))
