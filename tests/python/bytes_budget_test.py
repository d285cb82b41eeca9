"""Budgets in bytes: what fits into a size, in replays, in running models and in the report."""

import pytest
import torch

import kvsim
from conftest import H2O, comparison_of, drawing_of, drawings_of, needs_program
from drawn_figures import figure_of, in_shapes, require_named_axes
from kvsim.results.points import with_points
from layer_shapes_test import gemma4
from record_zoo import build, tokens

QUANT = H2O + "+quant:bits=4,group=64"
LENGTH = 40


def of_token(model, element=4):
    config = model.config
    return 2 * element * config.hidden_size // config.num_attention_heads


def recorded(model, path, dtype="float32", names=()):
    with kvsim.recording(model, path, dtype=dtype, names=names):
        model(tokens(LENGTH))
    return kvsim.Trace(path)


def test_a_sweep_keeps_as_many_tokens_of_each_policy_as_fit(tmp_path):
    model = build("llama")
    size = 9 * of_token(model)
    trace = recorded(model, tmp_path / "t.h5")
    frame = kvsim.sweep(trace, ["h2o", "h2o+quant"], [f"{size}B"], progress=False)
    budgets = frame.groupby("policy").budget.unique().map(list)
    assert budgets[H2O] == [9]
    (quantised,) = budgets[QUANT]
    assert quantised > 9
    assert set(frame.budget_request) == {f"{size}B"}
    assert (frame.cache_bytes <= size).all()
    assert (frame.cache_bytes > size * quantised / (quantised + 1)).all()


@pytest.mark.parametrize("loop", ["imposed", "adaptive"])
def test_a_running_model_keeps_what_fits_of_each_policy(loop, tmp_path):
    model, ids = build("llama"), tokens(LENGTH)
    size = 9 * of_token(model)
    requests = [f"{size}B", "9"]
    output = tmp_path / "r.sqlite"
    policies = "window;window+quant" if loop == "adaptive" else "window;h2o"
    frame = kvsim.evaluate(
        model, ids[0], policies, requests, loop=loop, output=output, progress=False
    )
    of_policy = dict(iter(frame.groupby("policy")))
    assert list(of_policy["window"].budget) == [9]
    assert list(of_policy["window"].budget_request) == [f"{size}B"]
    units = model.config.num_hidden_layers * model.config.num_key_value_heads
    assert (frame[frame.budget_request == f"{size}B"].cache_bytes <= units * size).all()
    if loop == "adaptive":
        rows = of_policy["window+quant:bits=4,group=64"]
        assert sorted(rows.budget)[0] == 9 and sorted(rows.budget)[1] > 9
    again = kvsim.evaluate(
        model, ids[0], policies, requests, loop=loop, output=output, progress=False
    )
    assert again.run_id.tolist() == frame.run_id.tolist()


def test_both_loops_count_bytes_as_the_trace_has_them(tmp_path):
    model, ids = build("llama"), tokens(LENGTH)
    trace = recorded(model, tmp_path / "t.h5", "float16", ["text"])
    size = 9 * of_token(model, element=2)
    for loop in ("imposed", "adaptive"):
        (row,) = kvsim.evaluate(
            model, ids[0], "window", [f"{size}B"], names=["text"], loop=loop, trace=trace,
            progress=False,
        ).itertuples()  # fmt: skip
        units = model.config.num_hidden_layers * model.config.num_key_value_heads
        assert (row.budget, row.cache_bytes) == (9, units * size), loop


def test_a_model_in_half_precision_needs_a_trace_for_a_size():
    model = build("llama").to(torch.bfloat16)
    with pytest.raises(kvsim.UsageError, match="2 bytes in this model and 4 in a trace"):
        kvsim.evaluate(model, tokens(LENGTH)[0], "window", ["1kB"], progress=False)


def test_evicting_takes_a_size_without_a_length():
    model = build("llama")
    size = f"{7 * of_token(model) + 1}B"
    for policy in ("window", "h2o+quant"):
        with kvsim.evicting(model, policy=policy, budget=size) as cache, torch.no_grad():
            model(tokens(LENGTH))
        units = model.config.num_hidden_layers * model.config.num_key_value_heads
        assert cache.cache_bytes <= units * (7 * of_token(model) + 1)
        assert (cache.peak_tokens == 7) == (policy == "window")


def test_layers_of_other_shapes_have_budgets_of_their_own_in_a_running_model():
    model = gemma4()
    with kvsim.evicting(model, policy="window", budget="1280B") as cache, torch.no_grad():
        model(tokens(LENGTH))
    # Keys and values of 16 and of 32 numbers in turn; where attention slides, 8 tokens are seen.
    assert len(cache.kept(layer=1, kv_head=0)[0]) == 1280 // 256
    assert cache.peak_tokens == 1280 // 128


def test_what_needs_one_budget_for_layers_of_other_shapes_refuses_a_size():
    model = gemma4()
    split = kvsim.evicting(model, policy="window@pyramid", budget="1280B")
    with pytest.raises(kvsim.UsageError, match=r"one budget for all layers.*give tokens"), split:
        pass
    with pytest.raises(kvsim.UsageError, match=r"in every layer, found 5 to 10.*give tokens"):
        kvsim.evaluate(model, tokens(LENGTH)[0], "window", "1280B", progress=False)


def test_a_size_that_holds_no_token_is_refused():
    evicting = kvsim.evicting(build("llama"), policy="window", budget="5B")
    with pytest.raises(kvsim.UsageError, match="5B: expected room for a token of window"), evicting:
        pass


def sized(result_file, policies=(H2O, QUANT, "window"), **values):
    """Rows at two sizes, of which a quantised policy has other tokens."""
    for policy in policies:
        for size in (4, 8):
            budget = 3 * size if "+quant" in policy else size
            lost = (0.2 if "+quant" in policy else 0.5) / size
            for layer in range(2):
                result_file.replay(
                    policy, budget, layer, budget_request=f"{size}KiB", cache_bytes=1024 * size,
                    attention_recall=1 - lost * (1 + layer / 10), **values,
                )  # fmt: skip
    return result_file.path


def test_a_point_of_a_size_is_the_request_of_each_row(result_file):
    sized(result_file)
    result_file.replay("window", 12, budget_request="12")  # as many tokens as +quant at 4KiB
    result_file.replay("tova", 5, budget_request="4096B")
    rows = with_points(kvsim.load(result_file.path).replay)
    points = rows.groupby(["policy", "budget"]).point.unique().map(list)
    assert points[QUANT, 12] == points["window", 4] == points["tova", 5] == ["4KiB"]
    assert points["window", 12] == ["12"]


@needs_program
def test_compare_pairs_rows_of_one_size(result_file):
    sized(result_file)
    frame = kvsim.compare(result_file.path, QUANT, "h2o")
    assert list(frame.budget) == ["4KiB", "8KiB"]
    assert frame.difference.tolist() == pytest.approx([0.3 / 4 * 1.05, 0.3 / 8 * 1.05])
    one = kvsim.compare(result_file.path, QUANT, "h2o", budget="8192B")
    assert one.difference.tolist() == frame.difference.tolist()[1:]


def test_curves_of_sizes_are_over_bytes(result_file):
    drawing = drawing_of(sized(result_file), "recall")
    axes = figure_of(drawing).axes[0]
    assert axes.get_xlabel() == "budget (bytes per KV head)"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["4KiB", "8KiB"]
    line = next(line for line in drawing.explore["data"] if line["name"].startswith("h2o+quant"))
    assert line["x"] == [4096, 8192]
    assert drawing.alt.startswith("Attention recall at 8KiB: ")


@in_shapes(["loss-bytes"])
def test_loss_against_bytes_is_drawn_for_sizes(result_file, name, shape):
    drawing = drawing_of(sized(result_file), name)
    require_named_axes(figure := figure_of(drawing, shape=shape))
    axes = figure.axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlabel() == "cache (bytes per KV head)"
    assert "+quant" in drawing.alt.split(",")[0]  # the least loss first
    assert "in 8,192 bytes" in drawing.alt


def test_loss_against_bytes_is_drawn_where_policies_store_tokens_in_other_sizes(result_file):
    result_file.sweep([H2O, "window"])
    assert "loss-bytes" not in drawings_of(result_file.path)
    result_file.sweep([QUANT], cache_bytes=40)
    drawing = drawing_of(result_file.path, "loss-bytes")
    (line,) = [line for line in drawing.explore["data"] if line["name"].startswith("h2o+quant")]
    assert line["x"] == [40, 40]


def test_loss_against_bytes_is_that_of_the_running_model_where_it_ran(result_file):
    result_file.sweep([H2O, "window"])
    result_file.sweep([QUANT], cache_bytes=40)
    result_file.closed_loop([H2O, QUANT])
    drawing = drawing_of(result_file.path, "loss-bytes")
    label = drawing.explore["layout"]["yaxis"]["title"]["text"]
    assert label == "KL of the running model (nats per token)"
    assert "imposed loop" in drawing.caption and "window" not in drawing.alt


def test_a_loss_out_of_all_proportion_and_none_leave_the_axis(result_file):
    errors = {"window": 0.2, H2O: 0.1, "tova": 0.15, "subgen:t=4": 1e6, "full": 0}
    for size in (4, 8):
        asked = {"budget_request": f"{size}KiB", "cache_bytes": 1024 * size}
        result_file.with_errors(errors, size, **asked)
    drawing = drawing_of(result_file.path, "loss-bytes")
    assert "Beyond the axis: subgen." in drawing.caption
    assert "nothing lost: full." in drawing.caption
    low, high = figure_of(drawing).axes[0].get_ylim()
    assert 0 < low < 0.25 and high < 10


def test_the_name_of_a_size_is_the_size(result_file):
    comparison = comparison_of(sized(result_file), budget="4KiB")
    assert comparison.point == comparison.budget_name("4KiB") == "4KiB"
    assert list(comparison.points.index) == ["4KiB", "8KiB"]
