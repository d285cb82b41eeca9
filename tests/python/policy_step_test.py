"""What a policy written in Python may read of a step, and what becomes of its mistakes."""

import numpy as np
import pytest

import kvsim
from conftest import SAMPLE

SEES_ALL = kvsim.Rules(
    sees_full_attention=True, sees_kinds=True, sees_values=True, sees_queries=True
)
ARRAYS = ["tokens", "attention", "full_attention", "keys", "values", "queries", "kinds"]


def swept(policies, **options):
    chosen = {"layers": 0, "heads": 0, "budgets": [9], "threads": 1, **options}
    return kvsim.sweep(SAMPLE, policies, **chosen)


def test_a_step_shows_the_trace_up_to_its_token():
    sequence = kvsim.Trace(SAMPLE).sequences[0].name
    unit = kvsim.Trace(SAMPLE).unit(sequence, 0, 0)
    steps = []

    class Looks(kvsim.Policy):
        rules = SEES_ALL

        def update(self, step, scores):
            steps.append(step.index)
            tokens = step.tokens
            assert tokens[-1] == step.index and (np.diff(tokens) > 0).all()
            assert step.overflow == max(0, len(tokens) - 9)
            np.testing.assert_array_equal(step.keys, unit.key[tokens])
            np.testing.assert_array_equal(step.values, unit.value[tokens])
            np.testing.assert_array_equal(step.queries, unit.query[:, step.index])
            assert step.attention.sum() == pytest.approx(1, abs=1e-5)
            assert step.full_attention.sum() <= 1 + 1e-5
            assert set(step.kinds) <= set(kvsim.TokenKind)
            scores += step.attention

    swept(Looks, sequences=sequence)
    assert steps == list(range(unit.num_tokens))


def test_arrays_are_read_only_and_do_not_reach_the_future():
    class Reaches(kvsim.Policy):
        rules = SEES_ALL

        def update(self, step, scores):
            assert scores.dtype == np.float64 and scores.flags.writeable
            for name in ARRAYS:
                array = getattr(step, name)
                assert not array.flags.writeable, name
                with pytest.raises(ValueError, match="WRITEABLE"):
                    array.flags.writeable = True
                whole = array
                while isinstance(whole.base, np.ndarray):
                    whole = whole.base
                with pytest.raises(ValueError, match="read-only"):
                    whole[0] = 0
                if name in ("keys", "values"):
                    assert not whole[len(step.tokens) :].any() or step.index > 9
            assert len(step.attention) == len(step.keys) == len(scores)

    swept(Reaches)


def test_arrays_are_made_once_while_the_cache_is_full():
    made = {name: set() for name in ARRAYS}
    scored = set()

    class Counts(kvsim.Policy):
        rules = SEES_ALL

        def __init__(self, budget):
            self.kept = []

        def update(self, step, scores):
            arrays = [getattr(step, name) for name in ARRAYS]
            if step.index < 9:
                return
            self.kept += [*arrays, scores]  # alive, so that no other gets their identity
            scored.add(id(scores))
            for name, array in zip(ARRAYS, arrays):
                made[name].add(id(array))

    sequence = kvsim.Trace(SAMPLE).sequences[0].name
    swept(Counts, sequences=sequence)
    assert {name: len(arrays) for name, arrays in made.items()} == dict.fromkeys(ARRAYS, 1)
    assert len(scored) == 1


def test_a_step_that_is_over_says_so():
    kept = []

    class Keeps(kvsim.Policy):
        def update(self, step, scores):
            kept.append(step)

    swept(Keeps)
    with pytest.raises(kvsim.KvsimError, match="the step is over"):
        len(kept[0].tokens)


def test_what_the_rules_do_not_ask_for_is_not_there():
    class Forgets(kvsim.Policy):
        def update(self, step, scores):
            scores += step.values.sum(axis=1)

    with pytest.raises(AttributeError, match=r"write Rules\(sees_values=True\)"):
        swept(Forgets)


class Fails(kvsim.Policy):
    def __init__(self, budget, seed=0, how="raises", at=17):
        self.how = how
        self.at = at
        if how == "never begins":
            raise ZeroDivisionError("no")

    def update(self, step, scores):
        if step.index != self.at:
            return
        if self.how == "raises":
            raise LookupError("nothing there")
        if self.how == "is too short":
            scores += step.attention[1:]
        if self.how == "has NaN":
            scores[3] = np.nan
        if self.how == "returns":
            return scores + step.attention


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("raises", LookupError, "nothing there"),
        ("is too short", ValueError, "broadcast"),
        ("has NaN", ValueError, "found NaN as the score of token"),
        ("returns", ValueError, "written into scores"),
    ],
)
def test_a_failing_update_is_raised_with_its_place(how, error, message):
    with pytest.raises(error, match=message) as raised:
        swept(f"fails:how={how}", sequences="held-out-text")
    (note,) = raised.value.__notes__
    assert note.startswith(f"policy fails:how={how},at=17 at budget 9, held-out-text layer 0 KV")
    assert note.endswith("step 17")


def test_a_failing_constructor_is_raised_with_its_policy():
    with pytest.raises(ZeroDivisionError) as raised:
        swept("fails:how=never begins")
    assert raised.value.__notes__[0].startswith("policy fails:how=never begins")


def test_units_that_were_finished_before_a_failure_are_kept(tmp_path):
    class FailsLater(kvsim.Policy):
        made = 0

        def __init__(self, budget):
            FailsLater.made += 1

        def update(self, step, scores):
            if FailsLater.made > 3:
                raise RuntimeError("enough")

    file = tmp_path / "results.sqlite"
    with pytest.raises(RuntimeError, match="enough"):
        swept(FailsLater, layers=[0, 1, 2, 3], output=file)
    assert 0 < len(kvsim.load(file).replay) < 4
