"""A tiny LLaVA checkpoint with processor and tokenizer, saved as anyone would save one."""

from pathlib import Path

import torch
from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from trio_profile.inputs.builtin import BUILTIN

VISUAL_TOKENS = 36


def save_tiny_llava(directory: Path, *, layers: int = 6) -> Path:
    """36 visual tokens (48 pixels, patch 8), a decoder of width 32, pocket-deep's processor for smaller pictures."""
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            image_size=48,
            patch_size=8,
            projection_dim=32,
        ),
        text_config=LlamaConfig(
            hidden_size=32,
            intermediate_size=80,
            num_hidden_layers=layers,
            num_attention_heads=2,
            num_key_value_heads=2,
            vocab_size=300,
            max_position_embeddings=512,
            initializer_range=0.2,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        ),
        image_token_index=4,
        image_seq_length=VISUAL_TOKENS,
    )
    torch.manual_seed(0)
    LlavaForConditionalGeneration(config).save_pretrained(directory)
    make = BUILTIN["pocket-deep"].processor
    assert make is not None
    processor = make()
    processor.image_processor = CLIPImageProcessorPil(size={"shortest_edge": 48}, crop_size={"height": 48, "width": 48})
    processor.save_pretrained(directory)
    return directory
