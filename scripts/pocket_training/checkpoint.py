"""The pocket model before it is trained: its configuration, its word tokenizer, its processor."""

import torch
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers import models as tokenizer_models
from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration, LlavaProcessor

from trio_profile.inputs.builtin import SPECIALS, llava_processor
from trio_profile.inputs.pocket.grammar import WORDS
from trio_profile.inputs.pocket.scenes import PATCH, SIDE

VOCABULARY = {word: i for i, word in enumerate((*SPECIALS, *WORDS))}
TRAINED_FROM = 1_000_000
"""Scenes with this seed or a higher one are for training, lower seeds are for the exam."""
VISUAL_TOKENS = (SIDE // PATCH) ** 2
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] | upper }}: {% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>\n{% else %}{{ part['text'] }}{% endif %}{% endfor %} {% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
"""LLaVA-1.5's form of a prompt, which is that of a checkpoint without a template."""


def config(layers: int = 16, hidden: int = 128) -> LlavaConfig:
    """The configuration: 576 visual tokens and 16 decoder layers, enough for three stages, narrow enough to train."""
    return LlavaConfig(
        vision_config=CLIPVisionConfig(
            hidden_size=96,
            intermediate_size=192,
            num_hidden_layers=3,
            num_attention_heads=4,
            image_size=SIDE,
            patch_size=PATCH,
            projection_dim=96,
        ),
        text_config=LlamaConfig(
            hidden_size=hidden,
            intermediate_size=2 * hidden,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=4,
            head_dim=48,
            # Things are found by their content. With the library's 1e4 most of a head rotates too fast for this.
            rope_parameters={"rope_type": "default", "rope_theta": 1e8},
            vocab_size=len(VOCABULARY),
            max_position_embeddings=1024,
            # 1/√d. With the library's 0.02 a network of this width hardly begins to learn.
            initializer_range=hidden**-0.5,
            pad_token_id=VOCABULARY["<pad>"],
            bos_token_id=VOCABULARY["<s>"],
            eos_token_id=VOCABULARY["</s>"],
        ),
        image_token_index=VOCABULARY["<image>"],
        image_seq_length=VISUAL_TOKENS,
        vision_feature_layer=-1,
    )


def processor() -> LlavaProcessor:
    """CLIP's preprocessing at 192 pixels, a tokenizer of whole words, and LLaVA-1.5's form of a prompt."""
    tokenizer = Tokenizer(tokenizer_models.WordLevel(VOCABULARY, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer.post_processor = processors.TemplateProcessing(  # pyright: ignore[reportAttributeAccessIssue]
        single="<s> $A", special_tokens=[("<s>", VOCABULARY["<s>"])]
    )
    found = llava_processor(tokenizer, SIDE, PATCH)
    found.chat_template = CHAT_TEMPLATE
    return found


def untrained(seed: int, layers: int = 16, hidden: int = 128) -> LlavaForConditionalGeneration:
    """The model before training. Its residual branches are small, and the tower's positions are waves."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlavaForConditionalGeneration(config(layers, hidden))
    for layer in model.model.language_model.layers:
        for weight in (layer.self_attn.o_proj.weight, layer.mlp.down_proj.weight):
            weight.data *= (2 * layers) ** -0.5
    positions = model.model.vision_tower.embeddings.position_embedding.weight
    positions.data[1:] = _waves(SIDE // PATCH, positions.shape[1])
    return model


def _waves(side: int, width: int) -> torch.Tensor:
    """[side², width] sines and cosines of rows and columns, so that neighbours are similar from the start."""
    frequencies = 10.0 ** -torch.linspace(0, 1.5, width // 4)
    angles = torch.arange(side)[:, None] * frequencies
    line = torch.cat([angles.sin(), angles.cos()], dim=1)
    rows, columns = line.repeat_interleave(side, dim=0), line.repeat(side, 1)
    return torch.cat([rows, columns], dim=1) * 0.5
