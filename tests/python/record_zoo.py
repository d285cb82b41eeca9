"""Small models with random weights, one of each kind that the recorder has to understand."""

import os
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
import tokenizers
import torch
import transformers

from kvsim.record import RecordError, recording
from kvsim.record.__main__ import main

VOCABULARY = 64
LETTERS = "abcdefghijklmnopqrstuvwxyz .,"
END, PADDING = 2, 1


def _config(kind: str, **options):
    shared = dict(
        vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=96, max_position_embeddings=256, initializer_range=0.2,
        bos_token_id=0, eos_token_id=END, pad_token_id=PADDING,
    )  # fmt: skip
    return getattr(transformers, kind)(**(shared | options))


GROUPED = dict(num_key_value_heads=2)
WINDOWS = ["sliding_attention", "full_attention", "sliding_attention"]
YARN = dict(rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=64)

CONFIGS = {
    "llama": lambda: _config("LlamaConfig", **GROUPED),
    "llama-yarn": lambda: _config("LlamaConfig", **GROUPED, rope_parameters=YARN),
    "qwen2": lambda: _config("Qwen2Config", **GROUPED),
    "qwen3": lambda: _config("Qwen3Config", **GROUPED, head_dim=24),
    "mistral": lambda: _config("MistralConfig", **GROUPED, sliding_window=8),
    "gemma2": lambda: _config(
        "Gemma2Config", **GROUPED, head_dim=16, sliding_window=8, layer_types=WINDOWS,
        attn_logit_softcapping=5.0, query_pre_attn_scalar=24,
    ),
    "gemma3": lambda: _config(
        "Gemma3TextConfig", **GROUPED, head_dim=16, sliding_window=8, layer_types=WINDOWS
    ),
    "gpt_neox": lambda: _config("GPTNeoXConfig"),
    "opt": lambda: _config("OPTConfig", ffn_dim=96, word_embed_proj_dim=64),
    "phi": lambda: _config("PhiConfig"),
    "stablelm": lambda: _config("StableLmConfig", **GROUPED),
    "cohere": lambda: _config("CohereConfig", **GROUPED),
    "glm": lambda: _config("GlmConfig", **GROUPED, head_dim=16),
    "granite": lambda: _config("GraniteConfig", **GROUPED, attention_multiplier=0.4),
    "gpt2": lambda: _config("GPT2Config"),
    "gpt_bigcode": lambda: _config("GPTBigCodeConfig"),
    "smollm3": lambda: _config("SmolLM3Config", **GROUPED, no_rope_layers=[1, 0, 1]),
    "gpt_oss": lambda: _config(
        "GptOssConfig", **GROUPED, head_dim=16, sliding_window=8, layer_types=WINDOWS,
        num_local_experts=3, num_experts_per_tok=2, rope_parameters=YARN,
    ),
    "llama4": lambda: _config(
        "Llama4TextConfig", **GROUPED, head_dim=16, attention_chunk_size=10,
        no_rope_layers=[1, 0, 1], intermediate_size_mlp=96, num_local_experts=2,
        attn_temperature_tuning=True, floor_scale=4, attn_scale=0.5,
    ),
    "deepseek_v3": lambda: _config(
        "DeepseekV3Config", num_key_value_heads=4, kv_lora_rank=16, q_lora_rank=16,
        qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=20, first_k_dense_replace=3,
    ),
}  # fmt: skip


def longrope(first_length: int, **factors):
    """Rotates by one set of factors up to a length, by another one above."""
    lengths = dict(original_max_position_embeddings=first_length)
    both = dict(short_factor=[1.0] * 8, long_factor=[4.0] * 8) | factors
    rope = dict(rope_type="longrope", rope_theta=1e4, factor=4.0, **lengths, **both)
    config = _config("Phi3Config", **GROUPED, **lengths, rope_parameters=rope)
    torch.manual_seed(7)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


# Models of which only some tests have to know.
OTHER_CONFIGS = {
    # It views what attention returns as another shape.
    "jetmoe": lambda: _config(
        "JetMoeConfig", num_hidden_layers=2, num_key_value_heads=4, kv_channels=16,
        num_attention_heads=8, num_local_experts=4, num_experts_per_tok=2,
    ),
}  # fmt: skip


def build(name: str, **options):
    """The model, ready to generate without end."""
    torch.manual_seed(7)
    config = (CONFIGS | OTHER_CONFIGS)[name]()
    for key, value in options.items():
        setattr(config, key, value)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def tokens(length: int, seed: int = 0) -> torch.Tensor:
    """Token ids [1, length], none of them special."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCABULARY, (1, length), generator=generator)


def generate(model, ids: torch.Tensor, new: int = 12, **options):
    """Exactly `new` tokens."""
    mask = options.pop("attention_mask", torch.ones_like(ids))
    shared = dict(max_new_tokens=new, min_new_tokens=new, do_sample=False, pad_token_id=PADDING)
    return model.generate(input_ids=ids, attention_mask=mask, **(shared | options))


def padded(lengths: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch of texts of these lengths, padded on the left, and its mask."""
    width = max(lengths)
    ids = torch.full((len(lengths), width), PADDING)
    mask = torch.zeros(len(lengths), width, dtype=torch.long)
    for row, length in enumerate(lengths):
        ids[row, width - length :] = tokens(length, seed=row)
        mask[row, width - length :] = 1
    return ids, mask


def sharp(model):
    """The model with logits in layer 1 that float16 rounds too much."""
    with torch.no_grad():
        model.model.layers[1].self_attn.q_proj.weight *= 8
        model.model.layers[1].self_attn.k_proj.weight *= 8
    return model


def refuse(model, path, reason, run, error=RecordError, **options):
    with pytest.raises(error, match=reason) as raised, recording(model, path, **options):
        run(model)
    assert "\n" not in str(raised.value)
    assert list(path.parent.iterdir()) == []


def record(model, path, ids, **options):
    """The open trace, in float32, of a text that the model reads."""
    with recording(model, path, dtype="float32", **options), torch.no_grad():
        model(ids)
    return h5py.File(path)


def worst_error(path: Path) -> float:
    """Recomputes all outputs in double precision; the largest error of a token.

    Relative to the attention-weighted mean length of the values.
    """
    worst = 0.0
    with h5py.File(path) as file:
        attributes = dict(file.attrs)
        for sequence in file["sequences"].values():
            for layer in sequence["layers"].values():
                query, key, value, output = (
                    layer[name][()].astype(np.float64)
                    for name in ("query", "key", "value", "output")
                )
                group_size = len(query) // len(key)
                key, value = (np.repeat(heads, group_size, 0) for heads in (key, value))
                scale = layer.attrs.get("scale", attributes["scale"])
                logits = scale * query @ key.transpose(0, 2, 1)
                if cap := attributes.get("logit_softcap"):
                    logits = cap * np.tanh(logits / cap)
                n = sequence.attrs["num_tokens"]
                step, token = np.arange(n)[:, None], np.arange(n)
                window = layer.attrs.get("sliding_window", n)
                chunk = layer.attrs.get("attention_chunk", n)
                visible = (token <= step) & (step - token < window)
                visible &= step // chunk == token // chunk
                logits[:, ~visible] = -np.inf
                sink = np.full(len(query), -np.inf)
                if "sink_logit" in layer:
                    sink = layer["sink_logit"][()].astype(np.float64)
                sink = np.broadcast_to(sink[:, None, None], (*logits.shape[:2], 1))
                logits = np.concatenate([logits, sink], axis=-1)
                weights = np.exp(logits - logits.max(-1, keepdims=True))
                weights /= weights.sum(-1, keepdims=True)
                found = weights[..., :-1] @ value
                assert found.shape == output.shape
                difference = np.linalg.norm(found - output, axis=-1)
                summed = (weights[..., :-1] @ np.linalg.norm(value, axis=-1)[..., None])[..., 0]
                worst = max(worst, float((difference / summed).max()))
    return worst


def verify_with_program(path: Path) -> None:
    """`kvsim verify`, if KVSIM_PROGRAM names the program."""
    program = os.environ.get("KVSIM_PROGRAM")
    if program:
        done = subprocess.run([program, "verify", path], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def check(path: Path, limit: float) -> None:
    """The trace agrees with the outputs of the model, by the program and without it."""
    error = worst_error(path)
    print(f"{path.stem}: worst error {error:.1e}")
    assert error < limit
    verify_with_program(path)


def letters():
    """A tokenizer with a token per letter; it adds no special tokens."""
    vocabulary = {"<s>": 0, "<pad>": 1, "</s>": 2, "?": 3}
    vocabulary |= {letter: 4 + index for index, letter in enumerate(LETTERS)}
    assert len(vocabulary) <= VOCABULARY
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="?"))
    each = tokenizers.Regex(".")
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(each, "isolated")
    tokenizer.decoder = tokenizers.decoders.Fuse()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )


def fail(capsys, status, message, *arguments):
    """The command line ends with the status and one line, and writes no t.h5."""
    try:
        assert main([str(argument) for argument in arguments]) == status
    except SystemExit as exit_:
        assert exit_.code == status
    lines = capsys.readouterr().err.strip().splitlines()
    errors = [line for line in lines if line.startswith("kvsim: error: ")]
    assert len(errors) == 1 and lines[-1] == errors[0], lines
    assert message in errors[0]
    assert not Path("t.h5").exists() and not list(Path().glob("t.h5.partial*"))
