"""kvsim.import_arrays makes a trace of dumps as people have them, and never guesses in silence."""

import json

import numpy as np
import pytest

import kvsim
from kvsim.imports.layouts import LAYOUTS

HEADS, KV_HEADS, TOKENS, DIM = 4, 2, 9, 8


def attention(query, key, value, scale=DIM**-0.5):
    """Outputs [heads, tokens, dim], in float64."""
    times = len(query) // len(key)
    key, value = (np.repeat(each.astype(float), times, 0) for each in (key, value))
    logits = scale * query.astype(float) @ key.transpose(0, 2, 1)
    logits[:, ~np.tri(query.shape[1], dtype=bool)] = -np.inf
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    return (shares / shares.sum(-1, keepdims=True) @ value).astype(np.float32)


def layer_of(seed=0, heads=HEADS, kv_heads=KV_HEADS, tokens=TOKENS, **how):
    random = np.random.default_rng(seed)
    query, key, value = (
        random.standard_normal((count, tokens, DIM)).astype(np.float32)
        for count in (heads, kv_heads, kv_heads)
    )
    return dict(query=query, key=key, value=value, output=attention(query, key, value, **how))


def laid_out(heads, layout):
    """[heads, tokens, dim] in this layout, with a batch of 1 where it has one."""
    order = layout.replace("(hd)", "hd").replace("b", "")
    array = heads.transpose(["htd".index(axis) for axis in order])
    array = array.reshape(len(array), -1) if "(" in layout else array
    return array[None] if "b" in layout else array


def dumped(arrays, layout):
    return {role: laid_out(each, layout) for role, each in arrays.items()}


def imported(source, path, **options):
    notes = []
    trace = kvsim.import_arrays(source, path / "trace.h5", notes=notes.append, **options)
    return trace, notes


def require_same(trace, arrays, sequence="sequence-0", layer=0):
    size = len(arrays["query"]) // len(arrays["key"])
    for head in range(len(arrays["key"])):
        unit = trace.unit(sequence, layer, head)
        np.testing.assert_array_equal(unit.key, arrays["key"][head])
        np.testing.assert_array_equal(unit.value, arrays["value"][head])
        np.testing.assert_array_equal(unit.query, arrays["query"][head * size :][:size])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_found_in_shapes_that_leave_one_answer(layout, tmp_path):
    arrays = layer_of()
    heads = {"num_query_heads": HEADS} if "(" in layout else {}
    trace, notes = imported(dumped(arrays, layout), tmp_path, **heads)
    require_same(trace, arrays)
    assert f"query {layout}" in notes[0] and f"query {layout}" in trace.recorder
    assert "agrees with the outputs" in notes[-1]


def test_outputs_may_have_another_layout_than_queries(tmp_path):
    arrays = layer_of()
    source = dumped(arrays, "bhtd") | {"attn_output": laid_out(arrays["output"], "bthd")}
    del source["output"]
    assert "output bthd" in imported(source, tmp_path)[1][0]


def test_shapes_that_fit_several_layouts_are_refused_until_one_is_named(tmp_path):
    arrays = layer_of(kv_heads=HEADS)
    source = dumped(arrays, "bhtd")
    with pytest.raises(
        kvsim.UsageError, match=r"may be bhtd.*4 query heads, 9 tokens.*bthd.*layout"
    ):
        imported(source, tmp_path)
    assert not (tmp_path / "trace.h5").exists()
    for decides in (dict(num_query_heads=HEADS), dict(token_ids=np.zeros((1, TOKENS), int))):
        require_same(imported(source, tmp_path, **decides)[0], arrays)


def bfloat16(array):
    """The upper half of the bits, as uint16."""
    return (np.ascontiguousarray(array, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def widened(array):
    return (bfloat16(array).astype(np.uint32) << 16).view(np.float32)


def write_safetensors(path, arrays, kind):
    header, at = {}, 0
    for name, each in arrays.items():
        ends = [at, at + each.nbytes]
        header[name] = {"dtype": kind, "shape": list(each.shape), "data_offsets": ends}
        at = ends[1]
    text = json.dumps(header).encode()
    body = b"".join(each.tobytes() for each in arrays.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def test_bfloat16_is_kept_exactly(tmp_path):
    rounded = {role: widened(each) for role, each in layer_of().items() if role != "output"}
    arrays = rounded | {"output": attention(*rounded.values())}
    bits = {f"layers.0.{role[0]}": bfloat16(laid_out(arrays[role], "bhtd")) for role in arrays}
    write_safetensors(tmp_path / "dump.safetensors", bits, "BF16")
    require_same(imported(tmp_path / "dump.safetensors", tmp_path)[0], arrays)
    np.savez(tmp_path / "dump.npz", **bits)
    with pytest.raises(kvsim.DataError, match="16 bits without a type"):
        imported(tmp_path / "dump.npz", tmp_path)
    require_same(imported(tmp_path / "dump.npz", tmp_path, dtype="bfloat16")[0], arrays)


def test_one_file_per_layer_says_its_layer_by_its_name(tmp_path):
    layers = [layer_of(0), layer_of(1)]
    (tmp_path / "dump").mkdir()
    for number, arrays in enumerate(layers):
        np.savez(tmp_path / f"dump/layer_{number}.npz", **dumped(arrays, "bhtd"))
    trace, _ = imported(tmp_path / "dump", tmp_path)
    for number, arrays in enumerate(layers):
        require_same(trace, arrays, layer=number)


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_repeated_keys_are_stored_once_or_kept(kv_heads, tmp_path):
    arrays = layer_of(kv_heads=kv_heads)
    source = arrays | {
        role: np.repeat(arrays[role], HEADS // kv_heads, 0) for role in ("key", "value")
    }
    trace, notes = imported(source, tmp_path, layout="htd")
    require_same(trace, arrays)
    assert f"stood {HEADS // kv_heads} times" in notes[0]
    kept, _ = imported(source, tmp_path, layout="htd", repeated="keep")
    assert kept.num_kv_heads == HEADS
    source["key"][1, 3, 2] += 1
    with pytest.raises(kvsim.DataError, match="not the same bit for bit"):
        imported(source, tmp_path, layout="htd", num_kv_heads=kv_heads)


@pytest.mark.parametrize("side", ["left", "right"])
def test_each_member_of_a_batch_is_a_text_without_its_padding(side, tmp_path):
    whole, short = layer_of(0), layer_of(1, tokens=6)
    widths = (TOKENS - 6, 0) if side == "left" else (0, TOKENS - 6)
    fill = {
        role: np.pad(short[role], ((0, 0), widths, (0, 0)), constant_values=7) for role in short
    }
    source = {role: np.stack([whole[role], fill[role]]) for role in whole}
    source["attention_mask"] = np.stack([np.ones(TOKENS, int), np.pad(np.ones(6, int), widths)])
    trace, _ = imported(source, tmp_path, prompt_length=[5, 2], sequence_names=["a", "b"])
    require_same(trace, whole, "a")
    require_same(trace, short, "b")
    assert [each.prompt_length for each in trace.sequences] == [5, 2]


def test_queries_and_keys_dumped_before_rotation_are_rotated(tmp_path):
    turn = np.arange(TOKENS)[:, None] * np.array([1.0, 0.1, 0.01, 0.001])
    arrays = layer_of()
    after = dict(arrays)
    for role in ("query", "key"):
        pairs = arrays[role][..., : DIM // 2] + 1j * arrays[role][..., DIM // 2 :]
        pairs = pairs * np.exp(1j * turn)
        after[role] = np.concatenate([pairs.real, pairs.imag], -1).astype(np.float32)
    arrays["output"] = attention(*(after[role] for role in ("query", "key", "value")))
    rope = {"inv_freq": [1.0, 0.1, 0.01, 0.001], "style": "half"}
    with pytest.raises(kvsim.DataError, match="keys before rotation"):
        imported(arrays, tmp_path)
    trace, _ = imported(arrays, tmp_path, rope=rope, rotate=True)
    np.testing.assert_allclose(trace.unit("sequence-0").key, after["key"][0], atol=1e-6)
    assert trace.rope["style"] == "half"


def without(arrays, *roles):
    return {role: each for role, each in arrays.items() if role not in roles}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda a: a | layer_of(scale=1.0), kvsim.DataError, "token 1 on.*with scale=1 it agrees"),
        (lambda a: a | {"output": a["output"] + 1}, kvsim.DataError, "from token 0 on.*projection"),
        (lambda a: without(a, "key"), kvsim.UsageError, "layer 0 has no key, found query.*names="),
        (lambda a: {"x": a["key"]}, kvsim.UsageError, "expected arrays named query.*found x"),
        (lambda a: a | {"q": a["query"]}, kvsim.UsageError, "is a second query of layer 0"),
        (lambda a: a | {"query": a["query"][:, -1:]}, kvsim.UsageError, "decode step"),
        (lambda a: a | {"value": a["value"][:, 1:]}, kvsim.UsageError, "no layout fits"),
        (lambda a: a | {"key": a["key"].astype(int)}, kvsim.DataError, "found int64"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_that_says_what_was_found(change, error, message, tmp_path):
    with pytest.raises(error, match=message) as raised:
        imported(change(layer_of()), tmp_path)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "trace.h5").exists()


def test_a_number_that_is_not_finite_is_named(tmp_path):
    arrays = layer_of()
    arrays["key"][1, 3, 2] = np.nan
    with pytest.raises(kvsim.DataError, match=r"key: head 1, token 3, dimension 2: .*found nan"):
        imported(arrays, tmp_path)


def test_names_of_any_kind_are_found_by_patterns_and_others_are_left_out(tmp_path):
    arrays = without(layer_of(), "output")
    source = {f"block/5/vec_{role[0]}_x": each for role, each in arrays.items()}
    names = {role: f"block/{{layer}}/vec_{role[0]}_x" for role in arrays}
    with pytest.warns(kvsim.KvsimWarning, match="left out.*: hidden"):
        trace, notes = imported(source | {"hidden": np.zeros(3)}, tmp_path, names=names)
    require_same(trace, arrays, layer=5)
    assert "nothing proves" in notes[-1]


@pytest.mark.parametrize("ending", ["npz", "safetensors", "pt"])
def test_a_damaged_file_is_one_line(ending, tmp_path):
    if ending == "pt":
        pytest.importorskip("torch")
    (tmp_path / f"dump.{ending}").write_bytes(b"damaged, and not short")
    with pytest.raises(kvsim.DataError, match=f"dump.{ending}: expected"):
        imported(tmp_path / f"dump.{ending}", tmp_path)


def test_the_dump_of_a_model_is_what_the_recorder_writes(tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=48,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    ids = torch.arange(3, 15)[None]
    with torch.no_grad(), kvsim.recording(model, tmp_path / "recorded.h5", dtype="float32"):
        model(ids)
    dump = {}

    def dumping(module, query, key, value, mask, **options):
        output, weights = sdpa_attention_forward(module, query, key, value, mask, **options)
        found = dict(query=query, key=key, value=value, output=output)
        dump.update({f"layers.{module.layer_idx}.{role}": each for role, each in found.items()})
        return output, weights

    transformers.AttentionInterface.register("dumping", dumping)
    model.set_attn_implementation("dumping")
    with torch.no_grad():
        model(ids)
    torch.save(dump, tmp_path / "dump.pt")
    trace, notes = imported(tmp_path / "dump.pt", tmp_path)
    assert "output bthd" in notes[0] and "agrees" in notes[-1]
    recorded = kvsim.Trace(tmp_path / "recorded.h5")
    for layer in range(2):
        for head in range(2):
            ours, theirs = (each.unit(None, layer, head) for each in (trace, recorded))
            for role in ("query", "key", "value"):
                np.testing.assert_array_equal(getattr(ours, role), getattr(theirs, role))
    assert trace.scale == recorded.scale
