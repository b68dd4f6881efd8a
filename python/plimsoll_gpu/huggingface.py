"""Models of Hugging Face transformers, from their configurations alone: nothing is asked of the network."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from plimsoll_gpu.graph import CaptureError

HEADS = {
    "none": "AutoModel",
    "causal-lm": "AutoModelForCausalLM",
    "masked-lm": "AutoModelForMaskedLM",
    "seq2seq-lm": "AutoModelForSeq2SeqLM",
    "speech-seq2seq": "AutoModelForSpeechSeq2Seq",
    "pretraining": "AutoModelForPreTraining",
    "sequence-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
    "image-classification": "AutoModelForImageClassification",
    "semantic-segmentation": "AutoModelForSemanticSegmentation",
    "video-classification": "AutoModelForVideoClassification",
    "audio-classification": "AutoModelForAudioClassification",
    "ctc": "AutoModelForCTC",
}
"""What a model is trained to say, and the class of transformers that builds it."""


@dataclass(frozen=True)
class Published:
    """A model on the hub: its configuration, what it is commonly trained for, and the length of a sample."""

    configuration: str
    """Class of the configuration."""
    head: str
    """A key of ``HEADS``, or a class of transformers."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What the configuration says beyond its class's defaults."""
    tokens: int = 512
    """Tokens of a sample of text; samples of sound."""
    has_own_head: bool = False
    """Whether the output layer shares no weight with the embedding though its class ties them until they are loaded."""


def build(
    name: str, head: str | None, tokens: int | None, shape: tuple[int, ...] | None, options: dict[str, Any]
) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """A model by its name on the hub, or by the path of a configuration.

    Args:
        name: A key of ``PUBLISHED``, or the path of a ``config.json`` or of its folder.
        head: A key of ``HEADS``; ``None`` is the model's own.
        tokens: Tokens of a sample, or samples of sound; ``None`` is the model's own.
        shape: Extents of an image or of features of sound; ``None`` is the model's own.
        options: Settings that replace those of the configuration.

    Raises:
        CaptureError: The name or the head is not known, or the configuration cannot be read.
    """
    import transformers

    if head is not None and head not in HEADS:
        raise CaptureError(f"unknown head `{head}`: known are {', '.join(HEADS)}")
    published = PUBLISHED.get(name)
    if published is not None:
        # A cache of keys and values serves generation; a training loop has no use for it.
        settings = {"use_cache": False} | published.settings | options
        config = getattr(transformers, published.configuration)(**settings)
        wanted = head or published.head
        builder = getattr(transformers, HEADS.get(wanted, wanted))
    else:
        config, builder = _from_file(name, head, options)
    model = builder.from_config(config) if hasattr(builder, "from_config") else builder._from_config(config)
    if published is not None and published.has_own_head:
        model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
    return model.float(), _inputs(model, tokens or (published.tokens if published else 512), shape)


def _from_file(name: str, head: str | None, options: dict[str, Any]) -> tuple[Any, Any]:
    """The configuration in a file, and the class that it names."""
    import transformers

    path = Path(name)
    path = path / "config.json" if path.is_dir() else path
    if not path.is_file():
        raise CaptureError(f"unknown model hf:{name}: neither a configuration file nor one of {', '.join(PUBLISHED)}")
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        kind = settings.pop("model_type")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CaptureError(f"{path}: expected a configuration of transformers with a `model_type`: {error}") from error
    named = next(iter(settings.get("architectures") or []), HEADS["none"])
    builder = getattr(transformers, HEADS[head] if head else named, None)
    if builder is None:
        raise CaptureError(f"{path}: transformers has no architecture `{named}`: give --head")
    settings.pop("dtype", settings.pop("torch_dtype", None))  # The precision is the training setup's.
    return transformers.AutoConfig.for_model(kind, **(settings | {"use_cache": False} | options)), builder


def _inputs(model: Any, tokens: int, shape: tuple[int, ...] | None) -> dict[str, torch.Tensor]:
    """One sample of what the model takes first, and of what its decoder or second tower takes."""
    config, main = model.config, model.main_input_name

    def ids(length: int) -> torch.Tensor:
        return torch.empty(1, length, dtype=torch.long, device="meta")

    def values(*extents: int) -> torch.Tensor:
        return torch.empty(1, *extents, device="meta")

    inputs = {}
    has_text_tower = hasattr(config, "text_config") and hasattr(config, "vision_config")
    if main == "input_ids" or has_text_tower:
        inputs["input_ids"] = ids(min(tokens, config.text_config.max_position_embeddings) if has_text_tower else tokens)
    if main == "pixel_values" or has_text_tower:
        inputs["pixel_values"] = values(*(shape or _image(config)))
    elif main == "input_features":
        positions = getattr(config, "max_source_positions", tokens)
        inputs["input_features"] = values(*(shape or (config.num_mel_bins, 2 * positions)))
    elif main == "input_values":
        inputs["input_values"] = values(tokens)
    if not inputs:
        raise CaptureError(f"{type(model).__name__} takes `{main}` first, of which no sample is known")
    is_pair = getattr(config, "is_encoder_decoder", False) and type(model).__name__.endswith(PAIRED)
    if is_pair:
        inputs["decoder_input_ids"] = ids(min(tokens, getattr(config, "max_target_positions", tokens)))
    return inputs


PAIRED = ("ForConditionalGeneration", "MTModel", "Model", "LMHeadModel")
"""Endings of classes whose decoder reads tokens of its own."""


def _image(config: Any) -> tuple[int, ...]:
    config = getattr(config, "vision_config", config)
    size = getattr(config, "image_size", 224)
    frames = getattr(config, "num_frames", None)
    extents = tuple(size) if isinstance(size, (list, tuple)) else (size, size)
    return (*([frames] if frames else []), getattr(config, "num_channels", 3), *extents)


_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
_ROBERTA = {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
_IMAGENET = {"num_labels": 1000}


def _t5(width: int, inner: int, layers: int, heads: int, **settings: Any) -> dict[str, Any]:
    return {"d_model": width, "d_ff": inner, "num_layers": layers, "num_heads": heads} | settings


def _bart(width: int, inner: int, layers: int, heads: int, **settings: Any) -> dict[str, Any]:
    sides = ("encoder", "decoder")
    each = {"layers": layers, "attention_heads": heads, "ffn_dim": inner}
    return {"d_model": width} | {f"{side}_{key}": each[key] for side in sides for key in each} | settings


def _llama(width: int, inner: int, layers: int, heads: int, kv_heads: int, **settings: Any) -> dict[str, Any]:
    return {
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
    } | settings


def _neox(width: int, layers: int, heads: int, **settings: Any) -> dict[str, Any]:
    shape = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    return shape | {"intermediate_size": 4 * width} | settings


def _opt(width: int, layers: int, heads: int, **settings: Any) -> dict[str, Any]:
    shape = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    return shape | {"ffn_dim": 4 * width, "word_embed_proj_dim": width} | settings


_DEBERTA_V3 = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "relative_attention": True,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
}
_REFORMER_ENWIK8 = {
    "vocab_size": 258,
    "hidden_size": 1024,
    "attn_layers": ["local", "local", "lsh", "local"] * 3,
    "num_attention_heads": 8,
    "attention_head_size": 128,
    "feed_forward_size": 4096,
    "axial_pos_shape": [128, 512],
    "axial_pos_embds_dim": [256, 768],
    "max_position_embeddings": 65536,
    "num_hashes": 4,
    "num_buckets": 512,
    "local_attn_chunk_length": 128,
    "lsh_attn_chunk_length": 256,
    "is_decoder": True,
}
_ALBERT = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
_ELECTRA_BASE = {"embedding_size": 768, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
_BEIT = {"use_relative_position_bias": True, "layer_scale_init_value": 0.1} | _IMAGENET
_LONGFORMER = _ROBERTA | {"max_position_embeddings": 4098, "attention_window": [512] * 12}
_SEGFORMER = {"num_labels": 150, "image_size": 512}
_GPT2_MEDIUM = {"n_embd": 1024, "n_layer": 24, "n_head": 16}
_XLNET_BASE = {"d_model": 768, "n_layer": 12, "n_head": 12, "d_inner": 3072}
_MILABENCH_BERT = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}

PUBLISHED: dict[str, Published] = {
    "bert-base-uncased": Published("BertConfig", "masked-lm"),
    "bert-base-cased": Published("BertConfig", "masked-lm", {"vocab_size": 28996}),
    "bert-large-uncased": Published("BertConfig", "masked-lm", _LARGE),
    "bert-large-cased": Published("BertConfig", "masked-lm", _LARGE | {"vocab_size": 28996}),
    "roberta-base": Published("RobertaConfig", "masked-lm", _ROBERTA),
    "roberta-large": Published("RobertaConfig", "masked-lm", _ROBERTA | _LARGE),
    "xlm-roberta-base": Published("XLMRobertaConfig", "masked-lm", _ROBERTA | {"vocab_size": 250002}),
    "distilbert-base-uncased": Published("DistilBertConfig", "masked-lm"),
    "distilroberta-base": Published("RobertaConfig", "masked-lm", _ROBERTA | {"num_hidden_layers": 6}),
    "albert-base-v2": Published("AlbertConfig", "masked-lm", _ALBERT),
    "electra-small-discriminator": Published("ElectraConfig", "pretraining"),
    "electra-base-discriminator": Published("ElectraConfig", "pretraining", _ELECTRA_BASE),
    "deberta-v3-base": Published("DebertaV2Config", "masked-lm", _DEBERTA_V3),
    "mobilebert-uncased": Published("MobileBertConfig", "masked-lm"),
    "mpnet-base": Published("MPNetConfig", "masked-lm", {"vocab_size": 30527, "max_position_embeddings": 514}),
    "fnet-base": Published("FNetConfig", "masked-lm"),
    "layoutlm-base-uncased": Published("LayoutLMConfig", "token-classification"),
    "modernbert-base": Published("ModernBertConfig", "masked-lm"),
    "bigbird-roberta-base": Published("BigBirdConfig", "masked-lm", tokens=1024),
    "longformer-base-4096": Published("LongformerConfig", "masked-lm", _LONGFORMER, 4096),
    "xlnet-base-cased": Published("XLNetConfig", "causal-lm", _XLNET_BASE),
    "xlnet-large-cased": Published("XLNetConfig", "causal-lm"),
    "reformer-enwik8": Published("ReformerConfig", "causal-lm", _REFORMER_ENWIK8, 65536),
    "gpt2": Published("GPT2Config", "causal-lm"),
    "gpt2-medium": Published("GPT2Config", "causal-lm", _GPT2_MEDIUM),
    "gpt2-large": Published("GPT2Config", "causal-lm", {"n_embd": 1280, "n_layer": 36, "n_head": 20}),
    "gpt2-xl": Published("GPT2Config", "causal-lm", {"n_embd": 1600, "n_layer": 48, "n_head": 25}),
    "distilgpt2": Published("GPT2Config", "causal-lm", {"n_layer": 6}),
    "gpt-j-6b": Published("GPTJConfig", "causal-lm"),
    "gpt-neox-20b": Published("GPTNeoXConfig", "causal-lm"),
    "pythia-160m": Published("GPTNeoXConfig", "causal-lm", _neox(768, 12, 12, vocab_size=50304)),
    "pythia-1.4b": Published("GPTNeoXConfig", "causal-lm", _neox(2048, 24, 16, vocab_size=50304)),
    "opt-125m": Published("OPTConfig", "causal-lm"),
    "opt-350m": Published(
        "OPTConfig", "causal-lm", _opt(1024, 24, 16) | {"word_embed_proj_dim": 512, "do_layer_norm_before": False}
    ),
    "opt-1.3b": Published("OPTConfig", "causal-lm", _opt(2048, 24, 32)),
    "opt-6.7b": Published("OPTConfig", "causal-lm", _opt(4096, 32, 32)),
    "bloom-560m": Published("BloomConfig", "causal-lm", {"hidden_size": 1024, "n_layer": 24, "n_head": 16}),
    "llama-2-7b": Published("LlamaConfig", "causal-lm", _llama(4096, 11008, 32, 32, 32), 2048),
    "llama-3-8b": Published("LlamaConfig", "causal-lm", _llama(4096, 14336, 32, 32, 8, vocab_size=128256), 2048),
    "tinyllama-1.1b": Published("LlamaConfig", "causal-lm", _llama(2048, 5632, 22, 32, 4), 2048),
    "mistral-7b": Published("MistralConfig", "causal-lm", tokens=2048),
    "mixtral-8x7b": Published("MixtralConfig", "causal-lm", tokens=2048),
    "qwen2-0.5b": Published("Qwen2Config", "causal-lm", _llama(896, 4864, 24, 14, 2, tie_word_embeddings=True), 2048),
    "qwen2-7b": Published("Qwen2Config", "causal-lm", _llama(3584, 18944, 28, 28, 4, vocab_size=152064), 2048),
    "gemma-2b": Published("GemmaConfig", "causal-lm", _llama(2048, 16384, 18, 8, 1, head_dim=256), 2048),
    "phi-2": Published("PhiConfig", "causal-lm", _llama(2560, 10240, 32, 32, 32, resid_pdrop=0.1), 2048),
    "t5-small": Published("T5Config", "seq2seq-lm"),
    "t5-base": Published("T5Config", "seq2seq-lm", _t5(768, 3072, 12, 12)),
    "t5-large": Published("T5Config", "seq2seq-lm", _t5(1024, 4096, 24, 16)),
    "flan-t5-base": Published(
        "T5Config",
        "seq2seq-lm",
        _t5(768, 2048, 12, 12, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
        has_own_head=True,
    ),
    "mt5-small": Published("MT5Config", "seq2seq-lm", {"tie_word_embeddings": False}, has_own_head=True),
    "bart-base": Published("BartConfig", "seq2seq-lm", _bart(768, 3072, 6, 12)),
    "bart-large": Published("BartConfig", "seq2seq-lm"),
    "pegasus-large": Published(
        "PegasusConfig", "seq2seq-lm", _bart(1024, 4096, 16, 16, vocab_size=96103, activation_function="relu")
    ),
    "vit-base-patch16-224": Published("ViTConfig", "image-classification", _IMAGENET),
    "deit-base-patch16-224": Published("DeiTConfig", "DeiTForImageClassification", _IMAGENET),
    "swin-tiny-patch4-window7-224": Published("SwinConfig", "image-classification", _IMAGENET),
    "beit-base-patch16-224": Published("BeitConfig", "image-classification", _BEIT),
    "convnext-tiny-224": Published("ConvNextConfig", "image-classification", _IMAGENET),
    "dinov2-base": Published("Dinov2Config", "image-classification", _IMAGENET | {"image_size": 224, "patch_size": 14}),
    "resnet-50": Published("ResNetConfig", "image-classification", _IMAGENET),
    "segformer-b0": Published("SegformerConfig", "semantic-segmentation", _SEGFORMER),
    "videomae-base": Published("VideoMAEConfig", "video-classification", {"num_labels": 400}),
    "clip-vit-base-patch32": Published("CLIPConfig", "none", tokens=77),
    "whisper-tiny": Published("WhisperConfig", "speech-seq2seq"),
    "whisper-base": Published("WhisperConfig", "speech-seq2seq", _bart(512, 2048, 6, 8)),
    "whisper-small": Published("WhisperConfig", "speech-seq2seq", _bart(768, 3072, 12, 12)),
    "whisper-large": Published("WhisperConfig", "speech-seq2seq", _bart(1280, 5120, 32, 20)),
    "wav2vec2-base": Published("Wav2Vec2Config", "ctc", tokens=160_000),
    "hubert-base": Published("HubertConfig", "ctc", tokens=160_000),
    "milabench-bert": Published("BertConfig", "masked-lm", _MILABENCH_BERT),
    "milabench-reformer": Published("ReformerConfig", "masked-lm", {"num_buckets": 128}, 4096),
    "milabench-whisper": Published("WhisperConfig", "audio-classification"),
}
"""Models by name: their configurations' facts. Those of milabench differ from the hub's."""
