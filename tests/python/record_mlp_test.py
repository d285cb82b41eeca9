"""What the recorder writes of the MLPs: the outputs of their activation functions."""

import h5py
import numpy as np
import pytest
import torch
import transformers

import kvsim
from kvsim.model.mlp_activation import activation_functions
from kvsim.record import RecordError, recording
from kvsim.record.__main__ import main
from nightly import a_third_by_day
from record_zoo import CONFIGS, GROUPED, _config, build, fail, generate, letters, tokens

MLP_OUTPUT = {  # the module with the output matrix, where it is not mlp.down_proj of a gated MLP
    "gpt_neox": "mlp.dense_4h_to_h",
    "gpt2": "mlp.c_proj",
    "gpt_bigcode": "mlp.c_proj",
    "opt": "fc2",
    "phi": "mlp.fc2",
}
MIXTURES = {"gpt_oss", "llama4"}
WIDTH = {"gpt2": 256, "gpt_bigcode": 256}  # four times the hidden size; else 96


def record(model, path, ids, **options):
    options = dict(dtype="float32", also="mlp_activation") | options
    with recording(model, path, **options), torch.no_grad():
        model(ids)
    return h5py.File(path)


def seen(model, ids, suffix, of_input):
    """What the modules of this name took or gave while the model read the text, by layer."""
    found = []
    hooks = [
        module.register_forward_hook(
            lambda _module, args, output: found.append((args[0] if of_input else output).detach())
        )
        for name, module in model.named_modules()
        if name.endswith(suffix)
    ]
    with torch.no_grad():
        model(ids)
    for hook in hooks:
        hook.remove()
    return [each.reshape(ids.shape[1], -1).numpy() for each in found]


def up_of(name, model, ids):
    """What the gate's activation is multiplied by."""
    if name != "glm":
        return seen(model, ids, "mlp.up_proj", False)
    return [both[:, 96:] for both in seen(model, ids, "mlp.gate_up_proj", False)]


@a_third_by_day
@pytest.mark.parametrize("name", sorted(CONFIGS.keys() - MIXTURES))
def test_the_activations_are_what_the_output_matrix_takes(name, tmp_path):
    model, ids = build(name), tokens(9)
    taken = seen(model, ids, MLP_OUTPUT.get(name, "mlp.down_proj"), True)
    factor = [1, 1, 1] if name in MLP_OUTPUT else up_of(name, model, ids)
    with record(model, tmp_path / "t.h5", ids) as file:
        for layer in range(3):
            dataset = file[f"sequences/sequence-0/layers/{layer}/mlp_activation"]
            assert dataset.shape == (9, WIDTH.get(name, 96))
            product = dataset[()] * factor[layer]
            np.testing.assert_allclose(product, taken[layer], rtol=1e-4, atol=1e-6)
    trace = kvsim.Trace(tmp_path / "t.h5")
    assert {layer.mlp_width for layer in trace.sequences[0].layers} == {WIDTH.get(name, 96)}


def mixture(name):
    sizes = dict(num_hidden_layers=2, moe_intermediate_size=32)
    config = {
        "mixtral": lambda: _config("MixtralConfig", **GROUPED, num_local_experts=4, **sizes),
        "qwen3_moe": lambda: _config(
            "Qwen3MoeConfig", **GROUPED, num_experts=4, num_experts_per_tok=2, **sizes
        ),
        "deepseek_v3": lambda: _config(  # with a shared expert, which is an MLP of its own
            "DeepseekV3Config", num_key_value_heads=4, kv_lora_rank=16, q_lora_rank=16,
            qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=20, first_k_dense_replace=1,
            n_routed_experts=4, n_group=1, topk_group=1, num_experts_per_tok=1, **sizes,
        ),
    }[name]()  # fmt: skip
    torch.manual_seed(7)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize("name", ["mixtral", "qwen3_moe", "deepseek_v3"])
def test_a_mixture_of_experts_is_refused_by_layer(name):
    message = "expected one MLP that every token goes through, found a mixture of experts in"
    with pytest.raises(RecordError, match=f"layer 1: {message}") as error:
        activation_functions(mixture(name), [1])
    assert "leave mlp_activation out" in str(error.value)


@pytest.mark.parametrize("name", sorted(MIXTURES))
def test_experts_that_a_model_fuses_are_refused(name):
    with pytest.raises(RecordError, match=r"layer 0: .* found a mixture of experts"):
        activation_functions(build(name), [0])


def test_the_dense_layers_of_a_mixture_of_experts_are_recorded(tmp_path):
    with record(mixture("deepseek_v3"), tmp_path / "t.h5", tokens(9), layers=[0]) as file:
        assert file["sequences/sequence-0/layers/0/mlp_activation"].shape == (9, 96)


def test_an_mlp_without_a_module_of_its_nonlinearity_is_refused():
    class Functional(torch.nn.Module):
        def __init__(self, mlp):
            super().__init__()
            self.up_proj, self.down_proj = mlp.up_proj, mlp.down_proj

        def forward(self, hidden):
            return self.down_proj(torch.nn.functional.relu(self.up_proj(hidden)))

    model = build("llama")
    model.model.layers[2].mlp = Functional(model.model.layers[2].mlp)
    with pytest.raises(RecordError, match="layer 2: expected a module that takes what a linear"):
        activation_functions(model, [0, 2])


def test_layers_that_share_their_activation_function_are_refused():
    model = build("llama")
    model.model.layers[2].mlp.act_fn = model.model.layers[0].mlp.act_fn
    for layer in (0, 2):
        with pytest.raises(RecordError, match=f"layer {layer}: expected a module .* once per"):
            activation_functions(model, [layer])


def test_generated_tokens_have_their_activations(tmp_path):
    model, ids = build("opt"), tokens(5)
    with recording(model, tmp_path / "t.h5", dtype="float32", also=["mlp_activation"]):
        whole = generate(model, ids, 6)
    (first, *_) = seen(model, whole[:, :-1], "fc2", True)
    trace = kvsim.Trace(tmp_path / "t.h5")
    np.testing.assert_allclose(trace.mlp_activation(layer=0), first, rtol=1e-4, atol=1e-6)


def test_the_command_line_records_what_the_analysis_reads(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    build("opt").save_pretrained("model")
    letters().save_pretrained("model")
    (tmp_path / "text.txt").write_text("to be or not to be, that is the question.")
    command = ["model", "--text", "text.txt", "-o", "t.h5", "--also", "mlp_activation"]
    assert main(command) == 0
    trace = kvsim.Trace("t.h5")
    tables = kvsim.analyze(trace, "mlp-heavy-hitters,mlp-concentration", progress=False)
    activation = trace.mlp_activation(layer=1)
    neurons = tables["mlp_heavy_hitters"].query("layer == 1").sort_values("neuron")
    np.testing.assert_allclose(neurons.active_share, (activation > 0).mean(0), rtol=1e-12)
    np.testing.assert_allclose(neurons.activation, np.abs(activation).sum(0), rtol=1e-6)
    (share,) = tables["mlp_concentration"].query("layer == 1").active_share
    assert share == pytest.approx((activation > 0).mean())


def test_evaluate_removes_its_trace_and_says_so():
    with pytest.raises(kvsim.UsageError, match="also: mlp_activation is for analyses of a trace"):
        kvsim.evaluate(build("opt"), [tokens(9)[0].tolist()], "window", [4], also="mlp_activation")


def test_an_overflow_of_float16_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model = build("opt")
    with torch.no_grad():
        model.model.decoder.layers[2].fc1.bias += 1e6
    model.save_pretrained("model")
    letters().save_pretrained("model")
    (tmp_path / "text.txt").write_text("to be or not to be")
    command = ["model", "--text", "text.txt", "-o", "t.h5", "--also", "mlp_activation"]
    command += ["--dtype", "float16"]
    fail(capsys, 3, "layers/2/mlp_activation", *command)
