"""The intervals of the report: those of the program."""

import numpy as np
import pandas as pd
import pytest

import kvsim
from conftest import H2O, comparison_of

TOVA = "tova:scope=head,score=cached"


def _scattered(file, sequences, specs=("window", H2O, TOVA)):
    random = np.random.default_rng(5)
    for sequence in sequences:
        for spec in specs:
            for budget in (4, 8):
                for layer in range(3):
                    for kv_head in range(2):
                        recall = random.random()
                        file.replay(
                            spec, budget, layer, kv_head, sequence=sequence,
                            attention_recall=recall, output_error_mean=1 - recall,
                        )  # fmt: skip
    return file


@pytest.mark.parametrize("sequences", [("one",), ("b", "a", "C", "ä", "d", "10", "9")])
def test_intervals_are_those_of_the_program(result_file, sequences, program):
    comparison = comparison_of(_scattered(result_file, sequences).path)
    for first, second in (("window", H2O), (TOVA, "window"), (H2O, TOVA)):
        rows = kvsim.compare(result_file.path, first, second)
        assert len(rows) == 2
        for point, row in zip(("10%", "20%"), rows.sort_values("budget").itertuples()):
            ours = comparison.difference(first, second, point)
            assert ours == pytest.approx((row.difference, row.low, row.high), abs=1e-12)
            assert row.low < row.difference < row.high
            samples = comparison.intervals.samples
            assert (samples.count, samples.sampled) == (row.samples, row.sampled)


def test_where_there_are_five_sequences_they_are_drawn_and_count_alike(result_file):
    for place, sequence in enumerate("abcde"):
        for layer in range(1 + 3 * (sequence == "a")):
            result_file.replay("window", 4, layer, sequence=sequence, attention_recall=place / 10)
    row = comparison_of(result_file.path).means.iloc[0]
    assert row["attention_recall"] == pytest.approx(0.2)
    assert comparison_of(result_file.path).intervals.samples.sampled == "sequences"


@pytest.mark.parametrize(
    ("sequences", "seed", "limits", "first_draw"),
    [
        ("a", 0, (0.0, 4 / 7), 0.0),
        ("abcdefg", 0, (7.3386054421768705, 32.56768707482991), 12.17687074829932),
        ("abcdefg", 3, (7.21156462585034, 32.872278911564614), 22.34013605442177),
    ],
)
def test_the_draws_do_not_change(sequences, seed, limits, first_draw):
    from kvsim.bootstrap import UNIT, Samples

    units = [(sequence, layer, 0) for sequence in sequences for layer in range(3)]
    samples = Samples(pd.DataFrame(units, columns=UNIT), seed)
    drawn = samples.drawn_means(np.arange(len(units))[None] ** 2 / 7)
    assert drawn[0, 0] == pytest.approx(first_draw, rel=1e-12)
    assert [float(end[0]) for end in samples.limits(drawn)] == pytest.approx(limits, rel=1e-12)


def test_an_interval_covers_the_mean_of_the_population_as_often_as_it_says(result_file):
    from kvsim.bootstrap import Samples

    rows = comparison_of(result_file.sweep(["window"], layers=10, kv_heads=10).path).rows
    samples = Samples(rows)
    values = np.random.default_rng(1).normal(size=(300, 100))
    low, high = samples.limits(samples.drawn_means(values))
    assert 0.90 < np.mean((low < 0) & (high > 0)) < 0.98


@pytest.mark.parametrize("layers", [4, 5])
def test_fewer_than_five_samples_are_not_enough_for_a_verdict(result_file, layers):
    from kvsim.bootstrap import Samples

    rows = comparison_of(result_file.sweep(["window"], layers=layers, kv_heads=1).path).rows
    assert Samples(rows).are_enough == (layers == 5)


def test_a_policy_that_is_the_same_differs_by_exactly_nothing(result_file):
    for spec in ("window", H2O):
        for layer, recall in enumerate((0.1, 0.3, 0.7, 0.123456789)):
            result_file.replay(spec, 4, layer, attention_recall=recall)
    assert comparison_of(result_file.path).difference("window", H2O, "10%") == (0, 0, 0)


def test_policies_of_other_units_are_left_out(result_file):
    for layer in range(2):
        result_file.replay("window", 4, layer)
        result_file.replay(H2O, 4, layer)
        result_file.replay(TOVA, 4, layer + 1)
    comparison = comparison_of(result_file.path)
    assert comparison.policies == [H2O, "window"]
    assert any("tova at 10%" in note for note in comparison.notes)
