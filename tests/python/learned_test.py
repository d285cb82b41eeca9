"""The policy `learned`: it keeps what its features and scorers say, and refuses other files."""

import subprocess

import numpy as np
import pytest

import kvsim
from conftest import PROGRAM, SAMPLE, needs_program
from learned_support import CHANGING, FIXED, arrays_of, header_of, reference_of, write
from nightly import a_third_by_day

TOKENS = 512
SEQUENCE = "held-out-text"
UNIT = {"sequence": SEQUENCE, "layer": 2, "kv_head": 1}
INDEX = {"model": 0, "layer": 2, "head": 2 * 4 + 1}  # of the scorer for the unit


def left_after(policy, **options):
    return kvsim.replay(SAMPLE, policy, 24, **UNIT | options).evicted_after


def check(header, tmp_path, **options):
    arrays = arrays_of(header, **options)
    path = write(tmp_path / "m.npz", header, arrays)
    reference = reference_of(header, arrays, INDEX[header["scope"]], TOKENS)
    np.testing.assert_array_equal(left_after(f"learned:file={path}"), left_after(reference))


@a_third_by_day  # the scorers below read all of them
@pytest.mark.parametrize("feature", FIXED + CHANGING)
def test_it_keeps_what_a_feature_says(feature, tmp_path):
    # Another feature keeps tokens from being alike.
    check(header_of([feature, "now"]), tmp_path, seed=3)


@pytest.mark.parametrize("feature", ["key", "key_like_mean"])
def test_keys_are_rotated_back_where_the_file_says_so(feature, tmp_path):
    check(header_of([feature, "now"], keys="unrotated"), tmp_path, seed=1)


@pytest.mark.parametrize(
    ("kind", "scope"),
    [("linear", "head"), ("mlp", "layer"), ("mlp", "head"), ("trees", "model"), ("trees", "head")],
)
def test_it_keeps_what_a_scorer_says(kind, scope, tmp_path):
    features = ["now", *FIXED[::-1], *CHANGING[1:]]
    check(header_of(features, kind, scope, "unrotated"), tmp_path, seed=2)


def test_a_batch_of_evictions_leaves_the_state_of_each_token(tmp_path):
    header = header_of(CHANGING)
    arrays = arrays_of(header, seed=4)
    path = write(tmp_path / "m.npz", header, arrays, np.savez_compressed)
    reference = reference_of(header, arrays, 0, TOKENS)
    for options in ({"eviction_interval": 7}, {"mode": "prefill"}, {"page": 8}):
        found = left_after(f"learned:file={path}", **options)
        np.testing.assert_array_equal(found, left_after(reference, **options))
        assert len(np.unique(found)) > 20


def test_rows_name_the_file_by_its_digest_and_are_the_same_on_any_number_of_threads(tmp_path):
    path = write(tmp_path / "m.npz", *file_of("mlp", "head"))
    specs = [
        f"learned:file={path}{more}" for more in ("", ",recent=8", "+protect+quant", "+shared")
    ]
    how = {"sequences": SEQUENCE, "layers": "0-1", "budgets": ["24"]}
    one, two = (kvsim.sweep(SAMPLE, specs, threads=threads, **how) for threads in (1, 2))
    assert one.drop(columns="run_id", errors="ignore").equals(
        two.drop(columns="run_id", errors="ignore")
    )
    assert one.policy.str.contains("sha256=[0-9a-f]{64}").all()
    assert one.groupby("policy").attention_recall.mean().nunique() == 4
    (spec,) = {policy for policy in one.policy if policy.endswith("recent=0,sinks=4")}
    write(path, *file_of("mlp", "model"))
    with pytest.raises(kvsim.DataError, match="it has changed"):
        kvsim.sweep(SAMPLE, spec, **how)


def file_of(kind="linear", scope="model", features=("now", "value_norm"), **others):
    header = header_of(list(features), kind, scope, **others)
    return header, arrays_of(header)


def wrong_files():
    header, arrays = file_of()
    tree_header, trees = file_of("trees")

    def without(name):
        return {key: value for key, value in arrays.items() if key != name}

    return {
        "no JSON": (b"{", arrays, "a JSON object"),
        "depth": (b'{"version": ' + 10**5 * b"[" + 10**5 * b"]" + b"}", arrays, "found a list"),
        "twice": (header | {"features": ["now", "now"]}, arrays, "each feature once"),
        "other": (header, arrays | {"bais": np.zeros(1, "f4")}, "no other arrays, found 'bais'"),
        "version": (header | {"version": 2}, arrays, "version 1, found 2"),
        "kind": (header | {"kind": "net"}, arrays, "linear or mlp or trees for 'kind'"),
        "no keys": ({k: v for k, v in header.items() if k != "keys"}, arrays, "'keys' in the"),
        "feature": (header | {"features": ["nowt"]}, arrays, "such as 'now'"),
        "rate": (header | {"features": ["decayed:2"]}, arrays, "such as 'decayed:0.98'"),
        "none": (header | {"features": []}, arrays, "names of features"),
        "columns": (header | {"features": ["now"]}, arrays, r"\[1, 1\], found \[1, 2\]"),
        "missing": (header, without("bias"), "an array 'bias', found none"),
        "type": (header, arrays | {"bias": np.zeros(1)}, "bias: expected float32"),
        "nan": (header, arrays | {"bias": np.array([np.nan], "f4")}, "finite numbers"),
        "split": (tree_header, trees | {"split_feature": trees["split_feature"] + 2}, "0 to 1"),
        "nodes": (tree_header, trees | {"split_feature": np.zeros((1, 2, 4), "i4")}, r"2\^E - 1"),
        "layers": (header | {"layers": 5}, arrays, "number of layers of .*: 4, found 5"),
        "heads": (header | {"kv_heads": 1}, arrays, "number of KV heads of .*: 4, found 1"),
        "dims": (header | {"head_dim": 8}, arrays, "head dimension of .*: 16, found 8"),
    }


@pytest.mark.parametrize("wrong", wrong_files())
def test_another_file_is_refused_in_one_line(wrong, tmp_path):
    header, arrays, message = wrong_files()[wrong]
    path = write(tmp_path / "m.npz", header, arrays)
    with pytest.raises(kvsim.DataError, match=message) as error:
        kvsim.sweep(SAMPLE, f"learned:file={path}", "24")
    assert "m.npz: " in str(error.value) and "\n" not in str(error.value)


@needs_program
def test_the_program_ends_in_one_line_and_status_3(tmp_path):
    path = write(tmp_path / "m.npz", *file_of())
    path.write_bytes(path.read_bytes()[:-9])
    command = [PROGRAM, "replay", SAMPLE, "--policy", f"learned:file={path}", "--budget", "24"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1 and "a whole .npz file" in done.stderr


def test_a_running_model_keeps_what_a_replay_keeps(tmp_path):
    torch = pytest.importorskip("torch")
    from record_zoo import build, tokens

    model, ids = build("llama"), tokens(48)
    trace, path = tmp_path / "t.h5", tmp_path / "m.npz"
    with kvsim.recording(model, trace, dtype="float32", names=["a"]), torch.no_grad():
        model(ids)
    unit = kvsim.Trace(trace).unit("a", 0, 0)
    shape = {"head_dim": unit.key.shape[1], "value_dim": unit.value.shape[1]}
    header = header_of(FIXED[:5] + CHANGING, "mlp", "head", "unrotated", layers=3, kv_heads=2)
    write(path, header | shape, arrays_of(header | shape))
    policy = f"learned:file={path}"
    found = kvsim.evaluate(model, ids, policy, "12", trace=trace, progress=False)
    imposed = kvsim.evaluate(model, ids, policy, "12", trace=trace, loop="imposed", progress=False)
    assert found.kept_overlap.iloc[0] > 0.5
    assert imposed.kl_mean.iloc[0] > 1e-3
    with kvsim.evicting(model, policy, 12) as cache, torch.no_grad():
        model(ids)
    assert all(len(kept) == 12 for kept in cache.kept(0, 0))
