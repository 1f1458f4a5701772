"""Save a small Qwen2.5-VL with random weights, its tokenizer and its settings for pictures, as an engine reads them.

    python random_qwen.py DIR

It runs in the engine's own environment, because a checkpoint must be of the engine's version of transformers.
"""

import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>")
PADS = ("<|vision_pad|>", "<|image_pad|>", "<|video_pad|>")
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXT = ["How many shapes do you see in the picture? Describe what stands where.", "user assistant system answer 0 to 9"]
PICTURES = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "processor_class": "Qwen2_5_VLProcessor",
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "min_pixels": 3136,
    "max_pixels": 12845056,
    "do_resize": True,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "do_convert_rgb": True,
    "resample": 3,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
"""What Qwen2.5-VL's published checkpoints have."""


def tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level pairs from two sentences, and the special tokens of Qwen2.5-VL."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet))
    made.add_special_tokens([*SPECIAL, *PADS])
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=[*SPECIAL[1:], *PADS],
        chat_template=TEMPLATE,
    )


def main() -> None:
    """Write the checkpoint."""
    directory = Path(sys.argv[1])
    words = tokenizer()
    ids = {name: words.convert_tokens_to_ids(name) for name in (*SPECIAL, *PADS)}
    config = Qwen2_5_VLConfig(
        text_config={
            "hidden_size": 768,
            "intermediate_size": 2048,
            "num_hidden_layers": 8,
            "num_attention_heads": 12,
            "num_key_value_heads": 4,
            "vocab_size": len(words),
            "max_position_embeddings": 8192,
            "rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]},
            "bos_token_id": ids["<|endoftext|>"],
            "eos_token_id": ids["<|im_end|>"],
        },
        vision_config={
            "depth": 6,
            "hidden_size": 512,
            "intermediate_size": 1024,
            "num_heads": 8,
            "out_hidden_size": 768,
            "fullatt_block_indexes": [2, 5],
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        vision_token_id=ids["<|vision_pad|>"],
    )
    torch.manual_seed(0)
    model = Qwen2_5_VLForConditionalGeneration(config)
    model.generation_config.eos_token_id = ids["<|im_end|>"]
    model.save_pretrained(directory)
    words.save_pretrained(directory)
    (directory / "preprocessor_config.json").write_text(json.dumps(PICTURES, indent=2))
    print(f"{sum(weight.numel() for weight in model.parameters()) / 1e6:.0f} M parameters in {directory}")


if __name__ == "__main__":
    main()
