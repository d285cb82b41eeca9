"""Models that select the tokens of each step (DeepSeek-V3.2, Qwen4 and their kind)."""

import types

import h5py
import numpy as np
import pandas as pd
import pytest
import torch
import transformers

import kvsim
from kvsim.model.selection import padded, selection_of_mask, take_selection
from kvsim.report.numbers.attention import read_head
from nightly import a_third_by_day
from record_zoo import GROUPED, _config, generate, tokens, verify_with_program
from record_zoo import padded as padded_texts

NUMBERS = np.random.default_rng(6)
N, K = 60, 7

QUERY, KEY, VALUE = (
    NUMBERS.normal(size=(heads, N, dim)).astype(np.float32)
    for heads, dim in ((4, 8), (2, 8), (2, 5))
)
SELECTED = padded(
    [
        np.sort(NUMBERS.choice(t + 1, min(K, t + 1), replace=False)).astype(np.int32)
        for t in range(N)
    ]
)


def selecting_trace(**also):
    return kvsim.Trace.from_arrays(QUERY, KEY, VALUE, selected=SELECTED, prompt_length=20, **also)


def test_a_trace_of_arrays_keeps_what_each_step_selects(tmp_path):
    trace = selecting_trace()
    layer = trace.sequences[0].layers[0]
    assert layer.has_selected and layer.recorded["selected"] == (N, K)
    assert np.array_equal(trace.unit(kv_head=1).selected, SELECTED)
    assert kvsim.Trace.from_arrays(QUERY, KEY, VALUE).unit().selected is None
    assert trace.trace_id != kvsim.Trace.from_arrays(QUERY, KEY, VALUE, prompt_length=20).trace_id


@pytest.mark.parametrize(
    ("selected", "words"),
    [
        (SELECTED[:-1], r"whole numbers of 32 bits \[60, K\], found int32 \[59, 7\]"),
        (SELECTED.astype(np.float32), "found float32"),
        (SELECTED.astype(np.int64) + 2**40, "found int64"),
        (SELECTED[:, ::-1], r"a token that the step selects, found -1 alone at \[0\]"),
        (np.maximum(SELECTED, 0), r"ascending tokens, found 0, then 0 at \[0\]"),
        (SELECTED + 1, r"tokens in 0..0, the step itself, found 1 at \[0\]"),
        ({3: SELECTED}, r"selected: expected layers of \[0\], found \[3\]"),
    ],
)
def test_arrays_that_select_what_no_model_does(selected, words):
    with pytest.raises(kvsim.UsageError, match=words):
        kvsim.Trace.from_arrays(QUERY, KEY, VALUE, selected=selected)


def test_a_model_that_selects_everything_is_one_that_does_not_select():
    everything = padded([np.arange(t + 1, dtype=np.int32) for t in range(N)])
    found, expected = (
        kvsim.sweep(
            kvsim.Trace.from_arrays(QUERY, KEY, VALUE, selected=each, prompt_length=20),
            "h2o;tova;snapkv;lookback;obcache;optimal;belady;topk;kcenter",
            [8, 30],
        )
        for each in (everything, None)
    )
    left_out = ["trace_id", "trace", "run_id"]
    pd.testing.assert_frame_equal(found.drop(columns=left_out), expected.drop(columns=left_out))


def test_a_policy_is_shown_what_the_model_selects():
    seen = []

    class Watching(kvsim.Policy):
        name = "watching"

        def update(self, step, scores):
            seen.append(step.selected.tolist())
            assert step.attention[~np.isin(step.tokens, step.selected)].sum() == 0
            scores += step.attention

    kvsim.sweep(selecting_trace(), [Watching], [12], heads=[0])
    assert seen[-N:] == [[j for j in row if j >= 0] for row in SELECTED.tolist()]


def test_a_cache_that_holds_nothing_of_what_a_step_selects_loses_all_of_it():
    only_first = padded([np.array([0], np.int32)] * N)
    trace = kvsim.Trace.from_arrays(QUERY, KEY, VALUE, selected=only_first)
    replay = kvsim.replay(trace, "window", 10, kv_head=0)
    assert (replay.attention_recall[:, :11] == 1).all()  # token 0 leaves after step 10
    assert (replay.attention_recall[:, 11:] == 0).all()
    assert replay.output_error[:, 11:] == pytest.approx(1, abs=1e-6)
    (curve,) = kvsim.curve(trace, "window", heads=[0]).query("budget == 10").itertuples()
    assert curve.attention_loss == pytest.approx((N - 11) / N)


def test_a_report_draws_what_the_steps_select(tmp_path):
    path = tmp_path / "t.h5"
    model = deepseek()
    with kvsim.recording(model, path), torch.no_grad():
        model(tokens(30))
    head = read_head(path, "sequence-0", 1, 2)
    weights = np.concatenate([block for _, block in head.attention()])
    assert weights.sum(axis=1) == pytest.approx(1)
    assert (weights[20] > 0).sum() == 8


def deepseek():
    """The 8 tokens that an indexer scores highest."""
    torch.manual_seed(7)
    config = _config(
        "DeepseekV32Config", num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=16,
        qk_nope_head_dim=16, qk_rope_head_dim=16, v_head_dim=16, n_routed_experts=4,
        num_experts_per_tok=2, n_group=1, topk_group=1, moe_intermediate_size=32,
        first_k_dense_replace=1, index_topk=8, index_n_heads=4, index_head_dim=32,
    )  # fmt: skip
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def qwen4():
    """Two complete blocks of 4 tokens, and those of the block that is not complete."""
    torch.manual_seed(7)
    config = _config(
        "Qwen4ExpTextConfig", **GROUPED, head_dim=16, layer_types=["full_attention"] * 3,
        indexer_n_heads=4, indexer_kv_heads=1, indexer_head_dim=16, indexer_budget=8,
        indexer_compress_ratio=4, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
    )  # fmt: skip
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def dots3():
    """A layer that selects 8 tokens, and one with a window of 8 that does not select."""
    torch.manual_seed(7)
    latent = dict(
        q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=16, v_head_dim=16
    )
    config = _config(
        "Dots3NoteTextConfig", num_hidden_layers=2, num_key_value_heads=4, **latent,
        **{f"swa_{name}": size for name, size in latent.items() if "rope_head" not in name},
        swa_num_attention_heads=4, swa_num_key_value_heads=4,
        swa_head_dim=32, sliding_window=8, layer_types=["indexed_attention", "sliding_attention"],
        mlp_layer_types=["dense", "sparse"], n_routed_experts=4, n_shared_experts=1,
        num_experts_per_tok=2, n_group=1, topk_group=1, moe_intermediate_size=32, head_dim=16,
        index_topk=8, index_n_heads=4, index_head_dim=16, attention_dropout=0.0,
    )  # fmt: skip
    return transformers.AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize("mode", ["stream", "prefill"])
def test_a_layer_that_does_not_select_keeps_its_window_where_others_select(mode, tmp_path):
    model, ids = dots3(), tokens(5)  # which outgrow the window while they are generated
    with kvsim.recording(model, tmp_path / "t.h5"):
        found = generate(model, ids, 14)
    layers = kvsim.Trace(tmp_path / "t.h5").sequences[0].layers
    assert [layer.has_selected for layer in layers] == [True, False]
    assert [layer.sliding_window for layer in layers] == [None, 8]
    with kvsim.evicting(model, "full", 10, mode=mode):
        assert torch.equal(generate(model, ids, 14), found)
    with kvsim.evicting(model, "h2o", 5, mode=mode) as cache:
        generate(model, ids, 14)
    assert {len(cache.kept(layer, 0)[0]) for layer in range(2)} <= {5, 6}


# The first hands its selection to the attention function, the second hides all else by its mask.
NUM_SELECTED = {deepseek: lambda n: min(n, 8), qwen4: lambda n: 4 * min(n // 4, 2) + n % 4}


@pytest.fixture(params=NUM_SELECTED)
def make(request):
    return request.param


@pytest.fixture
def model(make):
    return make()


def test_a_recording_has_what_the_model_attends_to(make, model, tmp_path):
    ids = tokens(40)
    with torch.no_grad():
        logits = model(ids).logits
    with kvsim.recording(model, tmp_path / "t.h5", dtype="float32"), torch.no_grad():
        assert (model(ids).logits - logits).abs().max() < 1e-5 * logits.abs().max()
    with h5py.File(tmp_path / "t.h5") as file:
        for layer in file["sequences/sequence-0/layers"].values():
            rows = layer["selected"][:]
            counts = (rows >= 0).sum(1).tolist()
            assert counts == [NUM_SELECTED[make](t + 1) for t in range(40)]
            assert rows.dtype == np.int32 and rows.shape == (40, max(counts))
    verify_with_program(tmp_path / "t.h5")


def test_padded_texts_select_by_their_own_positions(model, tmp_path):
    ids, mask = padded_texts([30, 18])
    with kvsim.recording(model, tmp_path / "both.h5", dtype="float32"):
        generate(model, ids, 6, attention_mask=mask)
    with kvsim.recording(model, tmp_path / "one.h5", dtype="float32"):
        generate(model, ids[1:, 12:], 6)
    both, one = (kvsim.Trace(tmp_path / name) for name in ("both.h5", "one.h5"))
    assert one.sequences[0].num_tokens == 23
    for layer in range(3):
        found = both.unit("sequence-1", layer).selected
        assert np.array_equal(found, one.unit("sequence-0", layer).selected)
    verify_with_program(tmp_path / "both.h5")


def test_a_text_that_outgrows_the_selection_has_all_tokens_before(make, model, tmp_path):
    with kvsim.recording(model, tmp_path / "t.h5"):
        generate(model, tokens(5), 12)
    rows = kvsim.Trace(tmp_path / "t.h5").unit(layer=1).selected
    assert (rows >= 0).sum(1).tolist() == [NUM_SELECTED[make](t + 1) for t in range(16)]


def test_one_selection_of_blocks_is_of_all_heads():
    module = types.SimpleNamespace(layer_idx=3, indexer=types.SimpleNamespace(block_size=2))
    blocks = torch.tensor([[[[2, 0]], [[0, 2]]]])  # of the one step of two KV heads
    found = take_selection(module, {"block_indices": blocks}, 5)
    assert found.tolist() == [[[True, True, False, False, True]]]
    with pytest.raises(kvsim.RecordError, match="layer 3 selects other tokens for each KV head"):
        take_selection(module, {"block_indices": torch.tensor([[[[2, 0]], [[1, 0]]]])}, 5)
    with pytest.raises(kvsim.RecordError, match="layer 3 selects number 5 of 5"):
        take_selection(module, {"indices": torch.tensor([[[2, 5]]])}, 5)


def test_a_mask_of_other_numbers_or_by_head_is_no_selection():
    module = types.SimpleNamespace(indexer=torch.nn.Identity())
    mask = torch.ones(1, 2, 3, 3).tril().bool()
    assert selection_of_mask(module, mask, 3).tolist() == mask[:, 0].tolist()
    by_head = mask.clone()
    by_head[0, 1, 2, 0] = False
    bias = torch.zeros(1, 1, 3, 3) - 2
    for other in (by_head, bias, None):
        assert selection_of_mask(module, other, 3) is None
    assert selection_of_mask(types.SimpleNamespace(indexer=None), mask, 3) is None


@a_third_by_day
@pytest.mark.parametrize("mode", ["stream", "prefill"])
def test_both_loops_keep_within_what_the_model_selects(model, mode):
    policies = ["full", "window", "sink", "h2o", "tova"]
    frames = [
        kvsim.evaluate(
            model, [tokens(40)[0]], policies, [6], mode=mode, prompt_length=12, loop=loop
        ).set_index("policy")
        for loop in ("imposed", "adaptive")
    ]
    imposed, adaptive = frames
    blind = [name for name in imposed.index if name.startswith(("full", "window", "sink"))]
    assert adaptive.nll[blind].tolist() == pytest.approx(imposed.nll[blind].tolist(), abs=1e-5)
    for frame in frames:
        assert frame.delta_nll["full"] == pytest.approx(0, abs=1e-5)
        assert np.isfinite(frame.nll).all()
    assert imposed.kl_mean["window"] > 0


def test_layer_0_of_a_model_that_selects_evicts_as_a_replay_does(model, tmp_path):
    ids = tokens(40)
    with kvsim.recording(model, tmp_path / "t.h5", dtype="float32"), torch.no_grad():
        model(ids)
    trace = kvsim.Trace(tmp_path / "t.h5")
    for policy in ("h2o", "tova", "lookback", "obcache"):
        with kvsim.evicting(model, policy, 9) as cache, torch.no_grad():
            model(ids)
            for head in trace.sequences[0].layers[0].kv_heads:
                replay = kvsim.replay(trace, policy, 9, layer=0, kv_head=head)
                kept = (np.array(replay.evicted_after) == 40).nonzero()[0]
                assert cache.kept(0, head)[0].tolist() == kept.tolist()


@pytest.mark.parametrize("drop", [False, True])
def test_generating_under_eviction_selects_among_what_is_kept(model, drop):
    with kvsim.evicting(model, "window", 5, drop=drop) as cache:
        generate(model, tokens(20), 8)
        assert cache.kept(1, 0)[0].tolist() == list(range(22, 27))


def test_what_cannot_follow_a_selection_is_refused(model):
    refused = pytest.raises(kvsim.UsageError, match=r"leave \+rest out")
    with refused, kvsim.evicting(model, "h2o+rest", 9), torch.no_grad():
        model(tokens(20))
    with pytest.raises(kvsim.DataError, match=r"found one that selects; leave \+rest out"):
        kvsim.sweep(selecting_trace(), "h2o+rest", [9])
