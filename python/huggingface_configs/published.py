"""Configurations of networks on the Hugging Face hub, in the form in which their files have them."""

from __future__ import annotations

from plimsoll_gpu.graph import Json


def _bert(vocabulary: int = 30522, width: int = 768, layers: int = 12) -> Json:
    return {
        "architectures": ["BertForMaskedLM"],
        "attention_probs_dropout_prob": 0.1,
        "gradient_checkpointing": False,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "hidden_size": width,
        "initializer_range": 0.02,
        "intermediate_size": 4 * width,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512,
        "model_type": "bert",
        "num_attention_heads": width // 64,
        "num_hidden_layers": layers,
        "pad_token_id": 0,
        "position_embedding_type": "absolute",
        "transformers_version": "4.6.0.dev0",
        "type_vocab_size": 2,
        "use_cache": True,
        "vocab_size": vocabulary,
    }


def _roberta(model_type: str, name: str, vocabulary: int, width: int = 768, layers: int = 12) -> Json:
    return _bert(vocabulary, width, layers) | {
        "architectures": [name],
        "bos_token_id": 0,
        "eos_token_id": 2,
        "layer_norm_eps": 1e-05,
        "max_position_embeddings": 514,
        "model_type": model_type,
        "output_past": True,
        "pad_token_id": 1,
        "type_vocab_size": 1,
    }


def _electra(name: str, embedding: int, width: int, heads: int) -> Json:
    return _bert(width=width) | {
        "architectures": [name],
        "embedding_size": embedding,
        "model_type": "electra",
        "num_attention_heads": heads,
        "summary_activation": "gelu",
        "summary_last_dropout": 0.1,
        "summary_type": "first",
        "summary_use_proj": True,
    }


DISTILBERT: Json = {
    "activation": "gelu",
    "architectures": ["DistilBertForMaskedLM"],
    "attention_dropout": 0.1,
    "dim": 768,
    "dropout": 0.1,
    "hidden_dim": 3072,
    "initializer_range": 0.02,
    "max_position_embeddings": 512,
    "model_type": "distilbert",
    "n_heads": 12,
    "n_layers": 6,
    "pad_token_id": 0,
    "qa_dropout": 0.1,
    "seq_classif_dropout": 0.2,
    "sinusoidal_pos_embds": False,
    "tie_weights_": True,
    "transformers_version": "4.10.0.dev0",
    "vocab_size": 30522,
}


def _albert(width: int, heads: int, inner: int) -> Json:
    return {
        "architectures": ["AlbertForMaskedLM"],
        "attention_probs_dropout_prob": 0,
        "bos_token_id": 2,
        "classifier_dropout_prob": 0.1,
        "down_scale_factor": 1,
        "embedding_size": 128,
        "eos_token_id": 3,
        "gap_size": 0,
        "hidden_act": "gelu_new",
        "hidden_dropout_prob": 0,
        "hidden_size": width,
        "initializer_range": 0.02,
        "inner_group_num": 1,
        "intermediate_size": inner,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512,
        "model_type": "albert",
        "net_structure_type": 0,
        "num_attention_heads": heads,
        "num_hidden_groups": 1,
        "num_hidden_layers": 12,
        "num_memory_blocks": 0,
        "pad_token_id": 0,
        "type_vocab_size": 2,
        "vocab_size": 30000,
    }


def _gpt2(width: int, layers: int, heads: int) -> Json:
    return {
        "activation_function": "gelu_new",
        "architectures": ["GPT2LMHeadModel"],
        "attn_pdrop": 0.1,
        "bos_token_id": 50256,
        "embd_pdrop": 0.1,
        "eos_token_id": 50256,
        "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05,
        "model_type": "gpt2",
        "n_ctx": 1024,
        "n_embd": width,
        "n_head": heads,
        "n_layer": layers,
        "n_positions": 1024,
        "resid_pdrop": 0.1,
        "summary_activation": None,
        "summary_first_dropout": 0.1,
        "summary_proj_to_labels": True,
        "summary_type": "cls_index",
        "summary_use_proj": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
        "vocab_size": 50257,
    }


def _opt(width: int, layers: int, heads: int, embedding: int | None = None) -> Json:
    return {
        "_remove_final_layer_norm": False,
        "activation_dropout": 0.0,
        "activation_function": "relu",
        "architectures": ["OPTForCausalLM"],
        "attention_dropout": 0.0,
        "bos_token_id": 2,
        "do_layer_norm_before": embedding is None,
        "dropout": 0.1,
        "eos_token_id": 2,
        "ffn_dim": 4 * width,
        "hidden_size": width,
        "init_std": 0.02,
        "layerdrop": 0.0,
        "max_position_embeddings": 2048,
        "model_type": "opt",
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "pad_token_id": 1,
        "prefix": "</s>",
        "torch_dtype": "float16",
        "transformers_version": "4.21.0.dev0",
        "use_cache": True,
        "vocab_size": 50272,
        "word_embed_proj_dim": embedding or width,
    }


def _neox(width: int, layers: int, heads: int, vocabulary: int, function: str) -> Json:
    return {
        "architectures": ["GPTNeoXForCausalLM"],
        "bos_token_id": 0,
        "eos_token_id": 0,
        "hidden_act": function,
        "hidden_size": width,
        "initializer_range": 0.02,
        "intermediate_size": 4 * width,
        "layer_norm_eps": 1e-05,
        "max_position_embeddings": 2048,
        "model_type": "gpt_neox",
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "rotary_emb_base": 10000,
        "rotary_pct": 0.25,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
        "transformers_version": "4.24.0",
        "use_cache": True,
        "use_parallel_residual": True,
        "vocab_size": vocabulary,
    }


def _llama(width: int, inner: int, layers: int, heads: int, kv_heads: int, **more: object) -> Json:
    return {
        "architectures": ["LlamaForCausalLM"],
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_act": "silu",
        "hidden_size": width,
        "initializer_range": 0.02,
        "intermediate_size": inner,
        "max_position_embeddings": 4096,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": kv_heads,
        "pretraining_tp": 1,
        "rms_norm_eps": 1e-05,
        "rope_scaling": None,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
        "transformers_version": "4.31.0.dev0",
        "use_cache": True,
        "vocab_size": 32000,
    } | more


def _mistral(**more: object) -> Json:
    return (
        _llama(4096, 14336, 32, 32, 8)
        | {
            "architectures": ["MistralForCausalLM"],
            "max_position_embeddings": 32768,
            "model_type": "mistral",
            "rope_theta": 10000.0,
            "sliding_window": 4096,
        }
        | more
    )


def _qwen(model_type: str, name: str, shape: tuple[int, int, int, int, int], **more: object) -> Json:
    return (
        _llama(*shape)
        | {
            "architectures": [name],
            "attention_dropout": 0.0,
            "max_position_embeddings": 131072,
            "max_window_layers": 28,
            "model_type": model_type,
            "rope_theta": 1000000.0,
            "sliding_window": 131072,
            "torch_dtype": "bfloat16",
            "use_sliding_window": False,
            "vocab_size": 151936,
        }
        | more
    )


def _gemma(model_type: str, name: str, shape: tuple[int, int, int, int, int], **more: object) -> Json:
    return (
        _llama(*shape)
        | {
            "architectures": [name],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "head_dim": 256,
            "hidden_act": "gelu",
            "max_position_embeddings": 8192,
            "model_type": model_type,
            "rope_theta": 10000.0,
            "tie_word_embeddings": True,
            "vocab_size": 256000,
        }
        | more
    )


def _t5(model_type: str, name: str, shape: tuple[int, int, int, int], **more: object) -> Json:
    inner, width, heads, layers = shape
    return {
        "architectures": [name],
        "d_ff": inner,
        "d_kv": 64,
        "d_model": width,
        "decoder_start_token_id": 0,
        "dropout_rate": 0.1,
        "eos_token_id": 1,
        "initializer_factor": 1.0,
        "is_encoder_decoder": True,
        "layer_norm_epsilon": 1e-06,
        "model_type": model_type,
        "n_positions": 512,
        "num_heads": heads,
        "num_layers": layers,
        "output_past": True,
        "pad_token_id": 0,
        "relative_attention_num_buckets": 32,
        "vocab_size": 32128,
    } | more


GATED: Json = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "tokenizer_class": "T5Tokenizer"}


def _vit(name: str, **more: object) -> Json:
    return {
        "architectures": [name],
        "attention_probs_dropout_prob": 0.0,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "hidden_size": 768,
        "image_size": 224,
        "initializer_range": 0.02,
        "intermediate_size": 3072,
        "layer_norm_eps": 1e-12,
        "model_type": "vit",
        "num_attention_heads": 12,
        "num_channels": 3,
        "num_hidden_layers": 12,
        "patch_size": 16,
        "qkv_bias": True,
        "transformers_version": "4.13.0.dev0",
    } | more


def _whisper(width: int, layers: int, heads: int, mel_bins: int, vocabulary: int) -> Json:
    return {
        "activation_dropout": 0.0,
        "activation_function": "gelu",
        "architectures": ["WhisperForConditionalGeneration"],
        "attention_dropout": 0.0,
        "bos_token_id": 50257,
        "d_model": width,
        "decoder_attention_heads": heads,
        "decoder_ffn_dim": 4 * width,
        "decoder_layerdrop": 0.0,
        "decoder_layers": layers,
        "decoder_start_token_id": 50258,
        "dropout": 0.0,
        "encoder_attention_heads": heads,
        "encoder_ffn_dim": 4 * width,
        "encoder_layerdrop": 0.0,
        "encoder_layers": layers,
        "eos_token_id": 50257,
        "init_std": 0.02,
        "is_encoder_decoder": True,
        "max_source_positions": 1500,
        "max_target_positions": 448,
        "model_type": "whisper",
        "num_hidden_layers": layers,
        "num_mel_bins": mel_bins,
        "pad_token_id": 50257,
        "scale_embedding": False,
        "transformers_version": "4.27.0.dev0",
        "use_cache": True,
        "vocab_size": vocabulary,
    }


def _xlnet(width: int, layers: int) -> Json:
    return {
        "architectures": ["XLNetLMHeadModel"],
        "attn_type": "bi",
        "bi_data": False,
        "bos_token_id": 1,
        "clamp_len": -1,
        "d_head": 64,
        "d_inner": 4 * width,
        "d_model": width,
        "dropout": 0.1,
        "end_n_top": 5,
        "eos_token_id": 2,
        "ff_activation": "gelu",
        "initializer_range": 0.02,
        "layer_norm_eps": 1e-12,
        "mem_len": None,
        "model_type": "xlnet",
        "n_head": width // 64,
        "n_layer": layers,
        "pad_token_id": 5,
        "reuse_len": None,
        "same_length": False,
        "start_n_top": 5,
        "summary_activation": "tanh",
        "summary_last_dropout": 0.1,
        "summary_type": "last",
        "summary_use_proj": True,
        "untie_r": True,
        "vocab_size": 32000,
    }


LLAMA3: Json = {
    "bos_token_id": 128000,
    "eos_token_id": 128001,
    "max_position_embeddings": 131072,
    "rope_scaling": {
        "factor": 32.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}

PUBLISHED: dict[str, Json] = {
    "bert-base-uncased": _bert(),
    "bert-large-uncased": _bert(width=1024, layers=24),
    "bert-base-multilingual-cased": _bert(119547),
    "roberta-base": _roberta("roberta", "RobertaForMaskedLM", 50265),
    "roberta-large": _roberta("roberta", "RobertaForMaskedLM", 50265, 1024, 24),
    "xlm-roberta-base": _roberta("xlm-roberta", "XLMRobertaForMaskedLM", 250002),
    "camembert-base": _roberta("camembert", "CamembertForMaskedLM", 32005),
    "distilbert-base-uncased": DISTILBERT,
    "distilbert-base-uncased-finetuned-sst-2-english": DISTILBERT
    | {
        "architectures": ["DistilBertForSequenceClassification"],
        "finetuning_task": "sst-2",
        "id2label": {"0": "NEGATIVE", "1": "POSITIVE"},
        "label2id": {"NEGATIVE": 0, "POSITIVE": 1},
    },
    "albert-base-v2": _albert(768, 12, 3072),
    "albert-xxlarge-v2": _albert(4096, 64, 16384),
    "electra-small-discriminator": _electra("ElectraForPreTraining", 128, 256, 4),
    "electra-base-generator": _electra("ElectraForMaskedLM", 768, 256, 4),
    "gpt2": _gpt2(768, 12, 12),
    "gpt2-xl": _gpt2(1600, 48, 25),
    "opt-125m": _opt(768, 12, 12),
    "opt-350m": _opt(1024, 24, 16, 512),
    "opt-6.7b": _opt(4096, 32, 32),
    "pythia-160m": _neox(768, 12, 12, 50304, "gelu"),
    "gpt-neox-20b": _neox(6144, 44, 64, 50432, "gelu_fast"),
    "llama-2-7b": _llama(4096, 11008, 32, 32, 32),
    "llama-2-70b": _llama(8192, 28672, 80, 64, 8),
    "llama-3.2-1b": _llama(2048, 8192, 16, 32, 8, head_dim=64, mlp_bias=False, attention_bias=False)
    | LLAMA3
    | {"tie_word_embeddings": True},
    "tinyllama-1.1b": _llama(2048, 5632, 22, 32, 4),
    "mistral-7b-v0.1": _mistral(),
    "mistral-nemo": _mistral(
        head_dim=128, hidden_size=5120, num_hidden_layers=40, sliding_window=None, vocab_size=131072
    ),
    "qwen2-0.5b": _qwen("qwen2", "Qwen2ForCausalLM", (896, 4864, 24, 14, 2), tie_word_embeddings=True),
    "qwen2.5-7b": _qwen("qwen2", "Qwen2ForCausalLM", (3584, 18944, 28, 28, 4), vocab_size=152064),
    "qwen3-0.6b": _qwen(
        "qwen3",
        "Qwen3ForCausalLM",
        (1024, 3072, 28, 16, 8),
        attention_bias=False,
        head_dim=128,
        tie_word_embeddings=True,
    ),
    "gemma-2b": _gemma("gemma", "GemmaForCausalLM", (2048, 16384, 18, 8, 1)),
    "gemma-7b": _gemma("gemma", "GemmaForCausalLM", (3072, 24576, 28, 16, 16)),
    "gemma-2-2b": _gemma(
        "gemma2",
        "Gemma2ForCausalLM",
        (2304, 9216, 26, 8, 4),
        attn_logit_softcapping=50.0,
        final_logit_softcapping=30.0,
        hidden_activation="gelu_pytorch_tanh",
        query_pre_attn_scalar=256,
        sliding_window=4096,
    ),
    "t5-small": _t5("t5", "T5ForConditionalGeneration", (2048, 512, 8, 6)),
    "t5-base": _t5("t5", "T5ForConditionalGeneration", (3072, 768, 12, 12)),
    "flan-t5-base": _t5("t5", "T5ForConditionalGeneration", (2048, 768, 12, 12), **GATED),
    "mt5-small": _t5("mt5", "MT5ForConditionalGeneration", (1024, 512, 6, 8), **GATED, vocab_size=250112),
    "vit-base-patch16-224": _vit("ViTForImageClassification", num_labels=1000),
    "vit-base-patch16-224-in21k": _vit("ViTModel"),
    "whisper-tiny": _whisper(384, 4, 6, 80, 51865),
    "whisper-large-v3": _whisper(1280, 32, 20, 128, 51866),
    "xlnet-base-cased": _xlnet(768, 12),
}
"""Names on the hub to fields of their files, without what has nothing to do with the network."""

USUAL: dict[str, str] = {
    "albert": "AlbertForMaskedLM",
    "bert": "BertForMaskedLM",
    "camembert": "CamembertForMaskedLM",
    "distilbert": "DistilBertForMaskedLM",
    "electra": "ElectraForMaskedLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "gpt_neox": "GPTNeoXForCausalLM",
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "mt5": "MT5ForConditionalGeneration",
    "opt": "OPTForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "roberta": "RobertaForMaskedLM",
    "t5": "T5ForConditionalGeneration",
    "vit": "ViTForImageClassification",
    "whisper": "WhisperForConditionalGeneration",
    "xlm-roberta": "XLMRobertaForMaskedLM",
    "xlnet": "XLNetLMHeadModel",
}
"""Classes that files of a family usually name, for files that say nothing at all."""
