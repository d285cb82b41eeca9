"""Every kind of language model that transformers knows, small and with random weights.

A kind is a model type of transformers: `llama`, `gpt2`. What configurations have in common gets
small values by name, so that most kinds of a later release need no line here. Others have it in
OWN.
"""

import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

VOCABULARY = 96
POSITIONS = 256
LAYERS = 4
MOST_PARAMETERS = 50_000_000

# Small values, and the names that configurations have for them.
NAMES = [
    (VOCABULARY, "vocab_size decoder_vocab_size vocab_size_per_layer_input unpadded_vocab_size"),
    (POSITIONS, "max_position_embeddings n_positions n_ctx max_seq_len model_max_length "
     "max_target_positions context_length"),
    (LAYERS, "num_hidden_layers n_layer n_layers num_layers num_blocks decoder_layers "
     "encoder_layers num_decoder_layers num_encoder_layers"),
    (64, "hidden_size d_model n_embd dim_model embedding_size embedding_dim emb_dim lru_width "
     "word_embed_proj_dim attention_hidden_size backbone_hidden_size input_embedding_size "
     "output_embedding_size"),
    (96, "intermediate_size ffn_dim decoder_ffn_dim encoder_ffn_dim n_inner ffn_hidden_size "
     "intermediate_size_mlp dense_intermediate_size dim_ff dff d_inner feed_forward_size"),
    (32, "moe_intermediate_size expert_ffn_hidden_size shared_intermediate_size "
     "shared_expert_intermediate_size moe_shared_expert_intermediate_size"),
    (16, "head_dim kv_channels v_head_dim kv_lora_rank q_lora_rank qk_nope_head_dim d_head "
     "qk_rope_head_dim swa_head_dim index_head_dim linear_key_head_dim linear_value_head_dim "
     "linear_head_dim mamba_d_head mamba_head_dim hidden_size_per_layer_input"),
    (4, "num_attention_heads n_head n_heads num_heads attention_heads decoder_attention_heads "
     "encoder_attention_heads num_decoder_attention_heads num_encoder_attention_heads "
     "swa_num_attention_heads index_n_heads linear_num_value_heads linear_num_heads "
     "index_block_size num_experts n_routed_experts num_local_experts moe_num_experts "
     "zero_expert_num"),
    (2, "num_key_value_heads swa_num_key_value_heads linear_num_key_heads num_experts_per_tok "
     "num_experts_per_token index_topk_blocks moe_k moe_topk moe_top_k"),
    (1, "n_group topk_group num_expert_group n_shared_experts num_shared_experts "
     "first_k_dense_replace num_dense_layers"),
    (8, "sliding_window sliding_window_size local_attention attention_window_size window_size "
     "attention_chunk_size rotary_dim index_topk mamba_d_state state_size ssm_state_size"),
    (0.2, "initializer_range init_std embed_init_std"),
    (0.0, "attention_dropout attention_probs_dropout_prob"),
    (True, "is_decoder"),
]  # fmt: skip
SMALL = {name: size for size, names in NAMES for name in names.split()}

# Of these, what is set even where a default configuration leaves it out.
NEEDED = {
    "head_dim", "n_routed_experts", "n_shared_experts", "num_experts_per_tok",
    "num_key_value_heads",
}  # fmt: skip

# Those of the defaults are none of the small vocabulary.
TOKENS = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}

MIXED = ["linear_attention", "full_attention"] * 2
ROPE = {"rope_type": "default", "rope_theta": 1e4}
MAMBA = {"mamba_n_heads": 8}  # heads times dimensions: twice the hidden size
QSA = {
    "indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 8,
    "indexer_compress_ratio": 4,
}  # fmt: skip
SLIDING_MLA = {  # of the layers with a sliding window, in place of the others' values
    "swa_num_attention_heads": 4, "swa_num_key_value_heads": 4, "swa_head_dim": 32,
    "swa_q_lora_rank": 16, "swa_kv_lora_rank": 16, "swa_qk_nope_head_dim": 16,
    "swa_v_head_dim": 16,
}  # fmt: skip
TWICE = {"attention_hidden_size": 128, "attention_head_dim": 32}  # states next to embeddings

# What a kind needs in place of the values above.
OWN: dict[str, dict] = {
    "bamba": MAMBA | {"attn_layer_indices": [1, 3]},
    "blt": {"encoder_hash_byte_group_vocab": 500},
    "cohere_compass_text": {"rope_parameters": {"full_attention": ROPE}},
    "dbrx": {
        "attn_config": {"rope_theta": 1e4, "kv_n_heads": 2, "clip_qkv": 8},
        "ffn_config": {"hidden_size": 64, "ffn_hidden_size": 96},
    },
    "dory": {"n_input_layers": 1, "n_recurrent_layers": 2, "n_output_layers": 1},
    "dots3_note_text": SLIDING_MLA,
    "dots3_note": {
        "text_config": SLIDING_MLA,
        "vision_config": {"adapter_in_dim": 64, "adapter_out_dim": 64},
        "audio_config": {"adapter_input_size": 64, "adapter_out_dim": 64},
    },
    "falcon_h1": MAMBA | {"mamba_d_ssm": 128},
    "gemma3n_text": {"num_kv_shared_layers": 2, "intermediate_size": 96},
    "gemma4": {"text_config": {"global_head_dim": 32}},
    "gemma4_text": {"global_head_dim": 32, "num_kv_shared_layers": 2},  # shared as in E2B and E4B
    "gemma4_unified": {"text_config": {"global_head_dim": 32}},
    "gemma4_unified_text": {"global_head_dim": 32},
    "granitemoehybrid": MAMBA | {"layer_types": MIXED},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2},
    "mamba2": {"num_heads": 8},
    "minimax_m3_vl_text": {
        "layer_types": ["full_attention", "minimax_m3_sparse"] * 2, "index_n_heads": 2,
    },
    "qwen4_exp": {"text_config": QSA},
    "qwen4_exp_text": QSA,
    "reformer": {"axial_pos_shape": (16, 16), "axial_pos_embds_dim": (32, 32)},
    "xlstm": {"hidden_size": 128, "embedding_dim": 128},
    "xmod": {"default_language": "en_XX"},
    "zamba": TWICE,
    "zamba2": TWICE | {"mamba_headdim": 16},
    "zaya": {"num_experts_per_tok": 1},
}  # fmt: skip


def kinds() -> list[str]:
    """All of the installed transformers, by name."""
    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def build(kind: str) -> torch.nn.Module:
    """The model, ready to run. Raises what transformers does, and ValueError for a large one."""
    make = transformers.CONFIG_MAPPING[kind]
    config = make(**_merged(_small_values(make()), OWN.get(kind, {})))
    with torch.device("meta"):
        large = transformers.AutoModelForCausalLM.from_config(config)
    size = sum(parameter.numel() for parameter in large.parameters())
    if size > MOST_PARAMETERS:
        raise ValueError(f"it has {size / 1e6:.0f} million parameters")
    torch.manual_seed(7)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def _small_values(config: transformers.PretrainedConfig) -> dict:
    """Arguments that make a small configuration of the class of this default one."""
    known = {name: value for name, value in vars(config).items() if not name.startswith("_")}
    found = {name: SMALL[name] for name in known if name in SMALL and _is_set(known, name)}
    found |= {name: token for name, token in TOKENS.items() if name in known}
    if "kv_lora_rank" in known:  # each head makes its keys of the latent vector that all share
        found["num_key_value_heads"] = found["num_attention_heads"]
    for name, value in known.items():
        if isinstance(value, transformers.PretrainedConfig):
            found[name] = _small_values(value)
        elif _is_per_layer(config, value):
            found[name] = _few(value)
    return found


def _is_set(known: dict, name: str) -> bool:
    """A sliding window that a default configuration leaves out, for example, stays out."""
    return known[name] is not None or name in NEEDED


def _is_per_layer(config: transformers.PretrainedConfig, value: object) -> bool:
    layers = getattr(config, "num_hidden_layers", None)
    return isinstance(value, list) and len(value) == layers


def _few(value: list) -> list:
    """A value for each layer of a small model: each kind of layer in turn."""
    different = [each for index, each in enumerate(value) if each not in value[:index]]
    return [different[layer % len(different)] for layer in range(LAYERS)]


def _merged(values: dict, own: dict) -> dict:
    """With those of `own` in their place, also in the configurations of parts of the model."""
    for name, value in own.items():
        inner = isinstance(value, dict) and isinstance(values.get(name), dict)
        values[name] = _merged(values[name], value) if inner else value
    return values
