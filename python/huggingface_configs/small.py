"""Small networks, odd in one way or another."""

from __future__ import annotations

from dataclasses import dataclass, field

from plimsoll_gpu.graph import Json


@dataclass(frozen=True)
class Small:
    """A small network."""

    class_name: str
    """Its class in transformers."""
    settings: Json = field(default_factory=dict)
    """Arguments of its configuration."""
    eager: bool = False
    """Whether attention is made of separate products."""
    tokens: int = 12
    """Tokens of a sample."""


BERT: Json = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}
DISTILBERT: Json = {
    "vocab_size": 99,
    "dim": 32,
    "n_layers": 1,
    "n_heads": 4,
    "hidden_dim": 48,
    "max_position_embeddings": 64,
}
NARROW: Json = BERT | {"embedding_size": 16}
GPT2: Json = {
    "vocab_size": 99,
    "n_embd": 32,
    "n_layer": 1,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 1,
}
OPT: Json = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "ffn_dim": 48,
    "max_position_embeddings": 64,
}
LLAMA: Json = BERT | {"num_key_value_heads": 4}
GROUPED: Json = BERT | {"num_key_value_heads": 2}
T5: Json = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
VIT: Json = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 32,
    "patch_size": 8,
}
WHISPER: Json = {
    "vocab_size": 99,
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 40,
    "num_mel_bins": 8,
    "max_source_positions": 20,
    "max_target_positions": 30,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 3,
}
XLNET: Json = {"vocab_size": 99, "d_model": 32, "n_layer": 1, "n_head": 4, "d_inner": 48}
DROPPED: Json = {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1}

SMALL: dict[str, Small] = {
    "bert": Small("BertForMaskedLM", BERT | {"num_hidden_layers": 2}),
    "bert-eager": Small("BertForMaskedLM", BERT, eager=True),
    "bert-classifier": Small("BertForSequenceClassification", BERT | {"num_labels": 5, "classifier_dropout": 0.3}),
    "bert-pre-training": Small("BertForPreTraining", BERT),
    "bert-answers": Small("BertForQuestionAnswering", BERT | {"hidden_act": "quick_gelu"}),
    "bert-decoder": Small("BertLMHeadModel", BERT | {"is_decoder": True}),
    "bert-untied": Small("BertForMaskedLM", BERT | {"tie_word_embeddings": False, "type_vocab_size": 3}),
    "bert-odd-heads": Small("BertForMaskedLM", BERT | {"hidden_size": 36, "num_attention_heads": 6}),
    "bert-undropped": Small("BertModel", BERT | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}),
    "roberta": Small("RobertaForMaskedLM", BERT),
    "roberta-classifier": Small("RobertaForSequenceClassification", BERT | {"pad_token_id": 0}),
    "xlm-roberta": Small("XLMRobertaForMaskedLM", BERT),
    "camembert-tokens": Small("CamembertForTokenClassification", BERT),
    "electra": Small("ElectraForPreTraining", NARROW),
    "electra-untied": Small("ElectraForMaskedLM", BERT | {"embedding_size": 32, "tie_word_embeddings": False}),
    "distilbert": Small("DistilBertForMaskedLM", DISTILBERT),
    "distilbert-classifier": Small("DistilBertForSequenceClassification", DISTILBERT | {"num_labels": 1}),
    "albert": Small("AlbertForMaskedLM", NARROW | {"num_hidden_layers": 2}),
    "albert-groups": Small(
        "AlbertForSequenceClassification",
        NARROW | {"num_hidden_layers": 3, "num_hidden_groups": 2, "inner_group_num": 2, "hidden_dropout_prob": 0.1},
    ),
    "gpt2": Small("GPT2LMHeadModel", GPT2),
    "gpt2-eager": Small("GPT2LMHeadModel", GPT2, eager=True),
    "gpt2-odd-heads": Small("GPT2Model", GPT2 | {"n_embd": 20, "n_inner": 50, "activation_function": "gelu_fast"}),
    "gpt2-tokens": Small("GPT2ForTokenClassification", GPT2 | {"resid_pdrop": 0.0}),
    "opt": Small("OPTForCausalLM", OPT),
    "opt-norm-last": Small("OPTForCausalLM", OPT | {"word_embed_proj_dim": 16, "do_layer_norm_before": False}),
    "opt-unbiased": Small(
        "OPTForSequenceClassification",
        OPT | {"enable_bias": False, "layer_norm_elementwise_affine": False, "attention_dropout": 0.1},
        eager=True,
    ),
    "neox": Small("GPTNeoXForCausalLM", BERT),
    "neox-in-turn": Small(
        "GPTNeoXForCausalLM",
        BERT | {"use_parallel_residual": False, "hidden_dropout": 0.1, "rotary_pct": 1.0, "tie_word_embeddings": True},
        eager=True,
    ),
    "llama": Small("LlamaForCausalLM", LLAMA),
    "llama-grouped": Small("LlamaForCausalLM", GROUPED),
    "llama-grouped-eager": Small("LlamaForSequenceClassification", GROUPED | {"pad_token_id": 0}, eager=True),
    "llama-single-key": Small("LlamaModel", BERT | {"num_key_value_heads": 1, "attention_dropout": 0.1}, eager=True),
    "llama-wide-heads": Small("LlamaForCausalLM", GROUPED | {"head_dim": 260}),
    "llama-biased": Small(
        "LlamaForTokenClassification",
        LLAMA | {"attention_bias": True, "mlp_bias": True, "hidden_act": "gelu_new", "num_labels": 3},
    ),
    "mistral": Small("MistralForCausalLM", GROUPED | {"sliding_window": 5}),
    "mistral-unwindowed": Small("MistralForCausalLM", LLAMA | {"sliding_window": None, "head_dim": 10}),
    "qwen2": Small(
        "Qwen2ForCausalLM",
        GROUPED | {"num_hidden_layers": 2, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
    ),
    "qwen3": Small("Qwen3ForCausalLM", GROUPED | {"head_dim": 16, "tie_word_embeddings": True}),
    "gemma": Small("GemmaForCausalLM", LLAMA | {"head_dim": 16}),
    "gemma2": Small(
        "Gemma2ForCausalLM", GROUPED | {"num_hidden_layers": 2, "head_dim": 16, "sliding_window": 5}, eager=True
    ),
    "t5": Small("T5ForConditionalGeneration", T5),
    "t5-eager": Small("T5Model", T5 | {"num_layers": 1, "d_kv": 10}, eager=True),
    "t5-gated": Small(
        "T5ForConditionalGeneration",
        T5 | {"num_layers": 1, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
    "mt5-encoder": Small("MT5EncoderModel", T5 | {"num_layers": 1}),
    "vit": Small("ViTForImageClassification", VIT | {"num_labels": 7}),
    "vit-oblong": Small(
        "ViTModel",
        VIT
        | {
            "image_size": [32, 64],
            "patch_size": [8, 16],
            "qkv_bias": False,
            "hidden_dropout_prob": 0.1,
            "pooler_output_size": 9,
            "pooler_act": "relu",
        },
    ),
    "whisper": Small("WhisperForConditionalGeneration", WHISPER),
    "whisper-eager": Small("WhisperModel", WHISPER | DROPPED, eager=True),
    "xlnet": Small("XLNetLMHeadModel", XLNET),
    "xlnet-causal": Small(
        "XLNetForSequenceClassification", XLNET | {"attn_type": "uni", "clamp_len": 4, "dropout": 0.0}
    ),
}
"""Names to networks."""
