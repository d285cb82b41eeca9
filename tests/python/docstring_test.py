"""Public docstrings are numpydoc: arguments, attributes, results and errors have their place."""

import builtins
import dataclasses
import inspect
import re
from importlib.util import find_spec

import pytest

import kvsim
import kvsim.tasks

pytest.importorskip("numpydoc")
from numpydoc.docscrape import get_doc_object
from numpydoc.validate import Validator, validate

# Form of the text, summary, parameters, return value. Summaries say what a function does ("Replays
# .."), so SS05, which wants an infinitive, takes no part.
CHECKS = set(
    "GL01 GL02 GL03 GL05 GL06 GL07 GL08 GL10 SS01 SS02 SS03 SS04 SS06 PR01 PR02 PR03 PR04 PR05 "
    "PR06 PR07 PR08 PR09 PR10 RT01 RT02 RT03 RT05 YD01".split()
)
OF_SIGNATURES = {"PR01", "PR02", "PR03"}


def described_by(thing, within=""):
    """The thing and, of a class, its public methods and properties, each with its name."""
    name = within + thing.__qualname__
    yield name, thing
    if inspect.isclass(thing):
        for key, value in vars(thing).items():
            is_member = isinstance(value, (property, classmethod)) or inspect.isfunction(value)
            if is_member and not key.startswith("_"):
                found = value if isinstance(value, property) else getattr(thing, key)
                yield f"{name}.{key}", found


def public_things():
    """All but `kvsim.lm_eval`, and without torch all that does not need it."""
    has_torch = find_spec("torch") is not None
    for package, within in ((kvsim, ""), (kvsim.tasks, "tasks.")):
        of_models = kvsim._OF_MODELS if package is kvsim else package._NEED_TORCH
        for name in sorted({*package.__all__, *of_models}):
            if has_torch or name not in of_models:
                thing = getattr(package, name)
                if not isinstance(thing, str):
                    described = thing if hasattr(thing, "__qualname__") else type(thing)
                    yield from described_by(described, within)


def faults_of(thing):
    """What is wrong with a docstring, a text each."""
    doc = Validator(get_doc_object(thing))
    checked = CHECKS
    if inspect.isclass(thing):
        has_own_init = "__init__" in vars(thing) and not dataclasses.is_dataclass(thing)
        if not has_own_init and "Parameters" not in doc.section_titles:
            checked = CHECKS - OF_SIGNATURES
    errors = validate(get_doc_object(thing))["errors"]
    faults = [f"{code}: {message}" for code, message in errors if code in checked]
    for section in ("Raises", "Warns"):
        for _, kinds, text in doc.doc[section]:
            unknown = [each for each in kinds.split(", ") if not is_known_error(each)]
            faults += [f"{section}: {each}: no such class" for each in unknown]
            faults += [] if text else [f"{section}: {kinds}: when?"]
    if inspect.isclass(thing):
        listed = {name for section in ("Attributes", "Parameters")
                  for names, _, _ in doc.doc[section] for name in names.split(", ")}  # fmt: skip
        faults += [f"no attribute {each}" for each in fields_of(thing) if each not in listed]
        faults += [f"attribute {names}: no text" for names, _, text in doc.doc["Attributes"]
                   if not text and names not in vars(BaseException)]  # fmt: skip
    if re.search(r"^\s*(Arguments|Attributes):", thing.__doc__ or "", re.MULTILINE):
        faults.append("a list of arguments or attributes is no section")
    return faults


def is_known_error(name):
    kind = getattr(kvsim, name, None) or getattr(builtins, name, None)
    return inspect.isclass(kind) and issubclass(kind, BaseException)


def fields_of(cls):
    """Public fields of the class and its bases in this package, properties with own texts apart."""
    own = [base for base in cls.__mro__ if base.__module__.startswith("kvsim")]
    names = [name for base in own for name in getattr(base, "__annotations__", {})]
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


THINGS = dict(public_things())


@pytest.mark.parametrize("name", THINGS)
def test_docstrings_are_numpydoc(name):
    assert faults_of(THINGS[name]) == []


def test_docstrings_of_models_of_lm_eval_are_numpydoc():
    pytest.importorskip("lm_eval")
    from kvsim.lm_eval import EvictingLM

    for name, thing in described_by(EvictingLM):
        assert faults_of(thing) == [], name


def test_the_check_finds_what_is_missing():
    def flawed(trace, budget):
        """Replays something

        Parameters
        ----------
        budget : int
            Tokens.

        Raises
        ------
        NoSuchError
            Never.
        """
        return trace, budget

    faults = " ".join(faults_of(flawed))
    assert [each for each in ("PR01", "RT01", "SS03", "NoSuchError") if each not in faults] == []

    @dataclasses.dataclass
    class Row:
        """A row."""

        budget: int

    Row.__module__ = "kvsim"
    assert faults_of(Row) == ["no attribute budget"]
