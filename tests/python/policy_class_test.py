"""From a class to a spec: names, parameters, the digest of the code, mistakes."""

import pickle
from typing import ClassVar, Literal

import pytest

import kvsim
from conftest import SAMPLE
from kvsim.policy import code as policy_code


def define(text, **names):
    """The class `Mine` of a text, as a notebook's cell defines it, without a source file."""
    scope = {"kvsim": kvsim, "Literal": Literal, **names}
    exec(compile(text, "<cell>", "exec"), scope)
    return scope["Mine"]


def code_after(before, after, text="scores += step.attention"):
    body = "class Mine(kvsim.Policy):\n    {}\n    def update(self, step, scores):\n        {}\n"
    first = define(body.format(before, text))._kvsim_code
    return first, define(body.format(after, text))._kvsim_code


def swept(policies):
    return kvsim.sweep(SAMPLE, policies, [9], layers=0, heads=0)


def test_keyword_arguments_are_parameters_of_the_spec():
    seen = []

    class Mine(kvsim.Policy):
        def __init__(
            self,
            budget,
            seed=0,
            decay=0.9,
            steps: int = 3,
            weight: float = 1,
            drops=True,
            kind: Literal["sum", "mean"] = "mean",
            *,
            note="none",
        ):
            seen.append((budget, decay, steps, weight, drops, kind, note))

        def update(self, step, scores):
            scores += step.attention

    frame = swept([Mine, "mine:decay=0.5,steps=7,drops=no,kind=sum,note=a b"])
    assert sorted(set(frame.policy)) == [
        "mine:decay=0.5,steps=7,weight=1,drops=no,kind=sum,note=a b",
        "mine:decay=0.9,steps=3,weight=1,drops=yes,kind=mean,note=none",
    ]
    assert (9, 0.5, 7, 1.0, False, "sum", "a b") in seen
    assert (9, 0.9, 3, 1.0, True, "mean", "none") in seen
    assert all(isinstance(of[3], float) for of in seen)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mine:decy=1", "did you mean 'decay'"),
        ("mine:steps=2.5", "steps='2.5' is not allowed"),
        ("mine:flag=maybe", "expected no|yes"),
        ("mine:preset=paper", "has no presets"),
    ],
)
def test_a_wrong_setting_is_a_usage_error(spec, message):
    define(
        "class Mine(kvsim.Policy):\n"
        "    def __init__(self, budget, decay=0.9, steps=3, flag=False): pass\n"
        "    def update(self, step, scores): pass\n"
    )
    with pytest.raises(kvsim.UsageError, match=message):
        swept(spec)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("self", "expected budget as its first argument"),
        ("self, seed, budget", "expected budget as its first argument"),
        ("self, budget, seed, decay", "decay: expected a default"),
        ("self, budget, decay=None", "decay: expected a float, int, bool or str"),
        ("self, budget, steps: int = 2.5", "steps: expected a float, int, bool or str"),
        ("self, budget, *rest", "expected an argument with a name"),
        ("self, budget, **rest", "expected an argument with a name"),
        ("self, budget, preset='a'", "expected another name"),
        ("self, budget, text='a,b'", "expected text without"),
        ("self, budget, kind: Literal['a', 1] = 'a'", "expected words in Literal"),
    ],
)
def test_an_argument_that_no_spec_can_express_is_a_type_error(arguments, message):
    with pytest.raises(TypeError, match=f"Mine.__init__.*{message}"):
        define(
            f"class Mine(kvsim.Policy):\n"
            f"    def __init__({arguments}): pass\n"
            f"    def update(self, step, scores): pass\n"
        )


@pytest.mark.parametrize("name", ["h2o", "all", "pyramidkv", "Mine", "my policy", ""])
def test_a_name_that_is_none_or_taken_is_a_usage_error(name):
    with pytest.raises(kvsim.UsageError, match="of Python"):
        define(f"class Mine(kvsim.Policy):\n    name = {name!r}\n    update = lambda *_: None\n")


def test_a_class_without_update_is_a_base_and_no_policy():
    class Base(kvsim.Policy):
        def __init__(self, budget, seed=0, decay=0.5):
            self.decay = decay

    class Below(Base):
        name = "below-a-base"

        def update(self, step, scores):
            scores *= self.decay

    assert swept(Below).policy[0] == "below-a-base:decay=0.5"
    with pytest.raises(TypeError, match="has no update"):
        swept(Base)
    with pytest.raises(TypeError, match=r"below kvsim\.Policy"):
        swept(int)


def test_a_class_that_is_defined_again_replaces_the_earlier_one():
    body = "class Mine(kvsim.Policy):\n    def update(self, step, scores):\n        {}\n"
    first = define(body.format("scores[:] = step.tokens"))
    second = define(body.format("scores[:] = -step.tokens"))
    frames = [swept("mine"), swept(first), swept(second)]
    assert frames[0].policy_code[0] == frames[2].policy_code[0] != frames[1].policy_code[0]
    assert frames[0].attention_recall[0] != frames[1].attention_recall[0]


def test_an_unchanged_class_keeps_its_code_and_a_changed_one_does_not():
    for before, after, is_same in [
        ("decay = 1", "decay = 1", True),
        ("decay = 1", "decay = 2", False),
        ("keeps = 'a'", "keeps = 'b'", True),
        ("rules = kvsim.Rules()", "rules = kvsim.Rules(drop=2)", False),
        ("words = {'a', 'b', 'c'}", "words = {'c', 'b', 'a'}", True),
        ("def __init__(self, budget, a=1): pass", "def __init__(self, budget, a=2): pass", False),
        ("@property\n    def b(self): return 1", "@property\n    def b(self): return 2", False),
        ("@staticmethod\n    def b(): return 1", "@staticmethod\n    def b(): return 2", False),
    ]:
        first, second = code_after(before, after)
        assert (first == second) == is_same, (before, after)


def test_what_a_class_encloses_counts_as_its_code():
    def made(factor):
        class Mine(kvsim.Policy):
            def update(self, step, scores):
                scores *= factor

        return Mine._kvsim_code

    assert made(1) == made(1) != made(2)


def test_the_code_is_that_of_the_source_text(tmp_path, monkeypatch):
    class Mine(kvsim.Policy):
        def update(self, step, scores):
            scores += step.attention  # a comment

    lines = policy_code._lines_of(Mine)
    assert any("# a comment" in line for line in lines)


def test_rows_of_a_changed_class_are_made_again(tmp_path):
    file = tmp_path / "results.sqlite"
    body = "class Mine(kvsim.Policy):\n    def update(self, step, scores):\n        {}\n"

    def rows(text, warns=False):
        define(body.format(text))
        options = {"layers": 0, "heads": 0, "output": file}
        if warns:
            with pytest.warns(kvsim.KvsimWarning, match="of another code of mine"):
                return kvsim.sweep(SAMPLE, "mine", [9], **options)
        return kvsim.sweep(SAMPLE, "mine", [9], **options)

    first = rows("scores[:] = step.tokens")
    again = rows("scores[:] = step.tokens")
    changed = rows("scores[:] = -step.tokens", warns=True)
    assert (first.run_id == again.run_id).all()
    assert (first.run_id != changed.run_id).all()


def test_all_stands_for_the_policies_that_the_program_has():
    define("class Mine(kvsim.Policy):\n    def update(self, step, scores): pass\n")
    frame = swept("all")
    listing = kvsim.policies().set_index("name")
    names = {policy.split(":")[0] for policy in frame.policy}
    assert "h2o" in names and listing.origin["mine"] == "Python"
    assert not any(listing.origin[name] == "Python" for name in names)


def test_presets_set_parameters():
    class Mine(kvsim.Policy):
        presets: ClassVar = {"paper": "decay=0.25"}

        def __init__(self, budget, decay=0.5):
            pass

        def update(self, step, scores):
            scores[:] = step.tokens

    assert swept("mine:preset=paper").policy[0] == "mine:decay=0.25"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"drop": 0}, ValueError),
        ({"protect_first": -1}, ValueError),
        ({"protect_newest": 1.5}, TypeError),
        ({"scope": "heads"}, ValueError),
        ({"prunes": 1}, TypeError),
        ({"selects": True}, ValueError),
    ],
)
def test_rules_are_checked(fields, error):
    with pytest.raises(error, match="Rules: "):
        kvsim.Rules(**fields)


def test_rules_of_another_type_are_a_type_error():
    class Mine(kvsim.Policy):
        rules = ("protect_newest", 4)

        def update(self, step, scores):
            pass

    with pytest.raises(TypeError, match=r"expected kvsim\.Rules"):
        swept(Mine)


def test_pickles_name_kinds_rotations_and_rules_where_earlier_ones_did():
    found = [kvsim.TokenKind.WORD, kvsim.Rotation((1.0,), True, 1.0), kvsim.Rules(drop=2)]
    assert pickle.loads(pickle.dumps(found)) == found
    places = [type(each).__module__ for each in found]
    assert places == ["kvsim.policy.policy", "kvsim.policy.policy", "kvsim.policy"]
