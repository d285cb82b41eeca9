"""Makes the pages of the reference: Python's functions, the program's help, the plug-in header."""

import re

import kvsim
from kvsim.program import run

# As in the table of python/README.md: by what is to be done.
GROUPS = {
    "traces": (
        "Traces",
        "Trace Unit catalogue get_trace make_trace import_arrays synth convert check recording "
        "second_reading",
    ),
    "replay": ("Replay", "sweep replay curve fetch analyze labels Replay Options"),
    "policies": (
        "Policies",
        "policies specs Policy Rules Selector SelectorStep StepStruct Rotation TokenKind "
        "load_plugin get_include from_kvpress",
    ),
    "models": (
        "Inside a running model",
        "evaluate evicting closed_loop_steps rank_correlations calibrated_kl layer_weights "
        "layer_interaction kept_overlap_by_layer",
    ),
    "choosing": (
        "Choosing policies and budgets",
        "tune Tuned train export_recipe head_budgets refined_budgets",
    ),
    "results": ("Results", "load Results compare about show export merge run"),
    "errors": (
        "Errors and warnings",
        "KvsimError UsageError DataError RecordError ResultsError NoSuchTable ProgramError "
        "WorkerError KvsimWarning RecordWarning ComparisonWarning",
    ),
}


def missing_names() -> list[str]:
    """Public names that no group has, and names in a group that are not public."""
    public = {*kvsim.__all__, *kvsim._OF_MODELS}
    return sorted(public ^ {name for _, names in GROUPS.values() for name in names.split()})


def _entry(name: str) -> str:
    if name == "specs":
        return f".. autodata:: kvsim.{name}\n   :no-value:\n"
    if name in kvsim._OF_MODELS or not isinstance(getattr(kvsim, name), type):
        return f".. autofunction:: kvsim.{name}\n"
    error = issubclass(getattr(kvsim, name), (Exception, Warning))
    members = "" if error else "   :members:\n"
    return f".. autoclass:: kvsim.{name}\n{members}"


def _page(title: str, names: list[str]) -> str:
    body = "\n".join(_entry(name) for name in names)
    return f"{title}\n{'=' * len(title)}\n\n{body}"


def _verbs() -> list[str]:
    return re.findall(r"^  ([a-z]+) {2,}", run("--help"), re.MULTILINE)


def stage(put) -> None:
    """Calls put(name, text) with each page."""
    rows = []
    for group, (title, names) in GROUPS.items():
        put(f"api/{group}.rst", _page(title, names.split()))
        functions = ", ".join(f":any:`kvsim.{name}`" for name in names.split())
        rows.append(f":doc:`{group}`\n   {functions}\n")
    lists = "\n".join(f"   {group}" for group in GROUPS)
    put(
        "api/index.rst",
        "Python functions\n================\n\n"
        + "\n".join(rows)
        + f"\n.. toctree::\n   :hidden:\n\n{lists}\n",
    )
    helps = [("The program", run("--help"))]
    helps += [(f"`kvsim {verb}`", run(verb, "--help")) for verb in _verbs()]
    text = "# Help of the program\n\nWhat `--help` prints of each verb.\n\n"
    text += "\n".join(f"## {title}\n\n```text\n{text.rstrip()}\n```\n" for title, text in helps)
    put("program.md", text)
