"""Models that no toy of a family is: classes without a file, pruned after a trial or refused, and other options."""

from collections.abc import Callable
from typing import Any

import pytest
import transformers
from transformers import PreTrainedModel

from tests.core import tiny
from trio_core.models import families, qwen, toy

LLAMA = {**toy.TEXT, "model_type": "llama"}
SIGLIP = {**toy.VISION, "model_type": "siglip_vision_model"}


def made(
    name: str, text: dict[str, Any] = LLAMA, vision: dict[str, Any] = toy.CLIP, kernel: str = "sdpa", **options: Any
) -> PreTrainedModel:
    """A toy of the class `name`ForConditionalGeneration. options: the rest of its configuration."""
    cls = getattr(transformers, f"{name}ForConditionalGeneration", None)
    if cls is None:
        pytest.skip(f"this transformers has no {name}")
    named = {"image_token_id", "image_patch_id"} & options.keys()
    placeholder = {} if named else {"image_token_index": tiny.IMAGE}
    config = cls.config_class(vision_config={**vision}, text_config={**text}, **placeholder, **options)
    return toy.build(cls, config, kernel, seed=0)


# --- classes that are pruned after a trial ---------------------------------------------------------------------------


def vip_llava() -> PreTrainedModel:
    return made("VipLlava", vision_feature_layers=[-1, -2])


def granite_vision() -> PreTrainedModel:
    """Features of three of the tower's layers enter at decoder layers 1 and 3, and spatial ones at four layers."""
    scales = {"logits_scaling": 2.0, "embedding_multiplier": 2.0, "residual_multiplier": 0.5}
    sizes = {"hidden_size": 64, "encoder_hidden_size": 64, "intermediate_size": 48, "max_position_embeddings": 64}
    layers = {"num_attention_heads": 1, "num_hidden_layers": 1, "cross_attention_frequency": 1}
    return made(
        "Granite4Vision",
        {**toy.TEXT, **scales, "attention_multiplier": 0.3},
        {**toy.CLIP, "hidden_size": 64},
        image_grid_pinpoints=toy.PINPOINTS,
        downsample_rate="1/2",
        deepstack_layer_map=[[0, 0], [1, 2]],
        spatial_target_layers=[1, 3, 4, 5],
        qformer_config={"model_type": "blip_2_qformer", **sizes, **layers},
    )


def aria() -> PreTrainedModel:
    """Its projector takes pictures of 16 patches alone, and makes 8 tokens of each."""
    experts = {"moe_num_experts": 4, "moe_topk": 2, "moe_num_shared_experts": 1, "head_dim": 8}
    tower = {**toy.VISION, "model_type": "idefics3_vision", "image_size": 32}
    return made(
        "Aria", {**toy.TEXT, "model_type": "aria_text", **experts}, tower, projector_patch_to_query_dict={16: 8}
    )


def aya_vision() -> PreTrainedModel:
    """A picture has 4 tokens."""
    return made("AyaVision", {**toy.TEXT, "model_type": "cohere2"}, SIGLIP)


def cohere2_vision() -> PreTrainedModel:
    """A picture has 4 tokens."""
    text = {**toy.TEXT, "model_type": "cohere2"}
    return made("Cohere2Vision", text, SIGLIP, image_token_id=tiny.IMAGE, alignment_intermediate_size=48)


def glm_with_experts() -> PreTrainedModel:
    """Its layers get positions with three axes."""
    experts = {
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
        "moe_intermediate_size": 16,
    }
    family = families["GLM-4.6V"]
    return made("Glm4vMoe", {**family.toy_text, **experts, "head_dim": 16}, family.toy_vision, **family.toy_options)


def got_ocr() -> PreTrainedModel:
    """A picture has 4 tokens: two convolutions halve its sides."""
    tower = {**toy.VISION, "image_size": 32, "output_channels": 8, "global_attn_indexes": [1], "window_size": 4}
    return made("GotOcr2", {**toy.TEXT, "model_type": "qwen2"}, {**tower, "mlp_dim": 48})


def granite_docling() -> PreTrainedModel:
    """It asks for a mask of the tiles that are no padding."""
    tower = {**toy.VISION, "out_hidden_size": 32, "scale_factor": 2, "deepstack_visual_indexes": [0, 1]}
    return made("GraniteDocling", toy.TEXT, tower, image_token_id=tiny.IMAGE)


def janus() -> PreTrainedModel:
    tower = {**toy.VISION, "projection_dim": 32, "num_image_tokens": 16}
    painter = {"latent_channels": 8, "base_channels": 32, "channel_multiplier": [1, 1], "num_embeddings": 16}
    painter |= {"projection_dim": 32, "image_token_embed_dim": 32}
    return made("Janus", LLAMA, tower, image_token_id=tiny.IMAGE, vq_config=painter)


def deepseek_vl() -> PreTrainedModel:
    return made("DeepseekVL", LLAMA, SIGLIP, image_token_id=tiny.IMAGE)


def deepseek_vl_hybrid() -> PreTrainedModel:
    """It asks for a second, larger picture."""
    large = {"model_type": "sam_vision_model", **toy.VISION, "image_size": 64, "output_channels": 8}
    large |= {"global_attn_indexes": [0, 1], "mlp_dim": 48}
    return made("DeepseekVLHybrid", LLAMA, SIGLIP, image_token_id=tiny.IMAGE, high_res_vision_config=large)


def mistral_3() -> PreTrainedModel:
    """It asks for the size of each picture."""
    tower = {**toy.VISION, "model_type": "pixtral", "image_size": 32}
    return made("Mistral3", {**toy.TEXT, "model_type": "mistral"}, tower, spatial_merge_size=2)


def paddle_ocr() -> PreTrainedModel:
    """Its tower gets patches that keep their two sides."""
    text = {**toy.TEXT, "head_dim": 8, "rope_parameters": toy.MROPE}
    return made("PaddleOCRVL", text, toy.VISION, image_token_id=tiny.IMAGE, vision_start_token_id=toy.VISION_START)


def video_llama_3() -> PreTrainedModel:
    """It asks how many patches of each picture become one token."""
    tower = {**toy.VISION, "model_type": "video_llama_3_vision"}
    return made("VideoLlama3", {**toy.TEXT, "model_type": "qwen2"}, tower, image_token_id=tiny.IMAGE)


PRUNED: dict[str, Callable[[], PreTrainedModel]] = {
    "Aria": aria,
    "Aya Vision": aya_vision,
    "Cohere2 Vision": cohere2_vision,
    "DeepSeek-VL": deepseek_vl,
    "DeepSeek-VL with two towers": deepseek_vl_hybrid,
    "GLM-4.5V and GLM-4.6V with experts": glm_with_experts,
    "GOT-OCR 2": got_ocr,
    "Granite 4 Vision": granite_vision,
    "Granite-Docling": granite_docling,
    "Janus": janus,
    "Mistral 3": mistral_3,
    "PaddleOCR-VL": paddle_ocr,
    "VideoLLaMA 3": video_llama_3,
    "ViP-LLaVA": vip_llava,
}


# --- classes whose decoder cannot drop tokens ------------------------------------------------------------------------


def qwen3_5_text() -> dict[str, Any]:
    """Every fourth layer has attention, the others are gated delta nets."""
    sizes = {"linear_key_head_dim": 8, "linear_value_head_dim": 8, "head_dim": 8}
    heads = {"linear_num_key_heads": 2, "linear_num_value_heads": 4}
    return {**toy.TEXT, **sizes, **heads, "model_type": "qwen3_5_text"}


def qwen3_5() -> PreTrainedModel:
    tower = {**qwen.TOWER, "depth": 2, "num_position_embeddings": 16}
    return made("Qwen3_5", qwen3_5_text(), tower, **toy.FRAMED_PLACEHOLDERS)


def minicpm_v() -> PreTrainedModel:
    """MiniCPM-V 4.6, whose decoder is Qwen3.5's."""
    return made("MiniCPMV4_6", qwen3_5_text(), toy.VISION, insert_layer_id=0, image_token_id=tiny.IMAGE)


def lfm2_vl() -> PreTrainedModel:
    """Two layers of convolutions, then one with attention."""
    text = {**toy.TEXT, "model_type": "lfm2", "full_attn_idxs": [2, 5], "block_auto_adjust_ff_dim": False}
    tower = {**toy.VISION, "model_type": "siglip2_vision_model", "num_patches": 16}
    return made("Lfm2Vl", text, tower, image_token_id=tiny.IMAGE, projector_hidden_size=32)


def llama4() -> PreTrainedModel:
    """Its position embeddings are complex numbers."""
    text = {**toy.TEXT, "model_type": "llama4_text", "head_dim": 8, "intermediate_size_mlp": 48, "num_local_experts": 2}
    widths = {"vision_output_dim": 32, "projector_input_dim": 32, "projector_output_dim": 32}
    return made("Llama4", text, {**toy.VISION, **widths})


REFUSED: dict[str, Callable[[], PreTrainedModel]] = {
    "Gemma 4 E2B and E4B, whose last layers share keys": lambda: gemma4(num_kv_shared_layers=3),
    "Gemma 4 with inputs of each layer's own": lambda: gemma4(hidden_size_per_layer_input=8),
    "LFM2-VL": lfm2_vl,
    "MiniCPM-V 4.6": minicpm_v,
    "Qwen3.5": qwen3_5,
}


# --- families with other options -------------------------------------------------------------------------------------


def gemma4(kernel: str = "sdpa", **text: Any) -> PreTrainedModel:
    family = families["Gemma 4"]
    return made("Gemma4", {**family.toy_text, **text}, family.toy_vision, kernel, **family.toy_options)


def glm_4_1v(kernel: str = "sdpa") -> PreTrainedModel:
    """GLM-4.1V, which has a class of its own."""
    family = families["GLM-4.6V"]
    return made("Glm4v", family.toy_text, family.toy_vision, kernel, **family.toy_options)


def molmo2(kernel: str = "sdpa", **text: Any) -> PreTrainedModel:
    family = families["Molmo 2"]
    return made("Molmo2", {**family.toy_text, **text}, family.toy_vision, kernel, **family.toy_options)


def llava_with(kind: str, **text: Any) -> PreTrainedModel:
    """LLaVA with another decoder."""
    return made("Llava", {**toy.TEXT, "model_type": kind, **text})
