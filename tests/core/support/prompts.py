"""Prompts: batches, padding, pictures, text without pictures, masks, positions."""

from collections.abc import Callable
from typing import Any

import torch

from tests.core import reference, tiny
from tests.core.support import bench
from tests.core.support.rows import Group
from trio_core import prune
from trio_core.trace import Trace

GROUP = Group("Prompts and batches")


def batch_is_right(samples: list[bench.Inputs], side: str = "left") -> str:
    """A forward of a batch: the logits of each sample are those of its shortened sequence."""
    model, inputs = bench.model(), tiny.batch(samples, side)
    with prune(model, bench.METHOD) as trace:
        logits = bench.forward(model, inputs).logits
    for row, one in enumerate(samples):
        left = bench.rows_left(trace, one, logits[row], row, side)
        assert bench.near(left, bench.shortened(trace, one, row=row)[0]), f"sample {row} is another one"
    counts = [bench.dropped(trace, row=row) for row in range(len(samples))]
    return f"{' and '.join(counts)}; each sample's logits are those of its physically shortened sequence."


def with_changed(**changes: Any) -> str:
    """One prompt with some inputs replaced; None leaves one out."""
    model = bench.model()
    one = bench.sample()
    with prune(model, bench.METHOD) as trace:
        logits = bench.forward(model, {n: v for n, v in {**one, **changes}.items() if v is not None}).logits
    return bench.prefill_is_right(trace, one, logits)


@GROUP.works("One picture", size="small")
def one_picture(model, one, trace):
    logits = bench.forward(model, one).logits
    return bench.prefill_is_right(trace, one, logits, same=False)


GROUP.works("Several pictures in one prompt", lambda: with_changed())


@GROUP.works("A batch with padding on the left")
def padded_left() -> str:
    return batch_is_right([bench.sample(after=7), bench.sample(before=9, after=12, seed=1)])


@GROUP.works("A batch with padding on the right")
def padded_right() -> str:
    return batch_is_right([bench.sample(after=7), bench.sample(before=9, after=12, seed=1)], "right")


@GROUP.works("A batch with unequal pictures and padding")
def unequal_padded() -> str:
    return batch_is_right([bench.sample("small", seed=1), bench.sample()])


@GROUP.works("A batch with unequal pictures of one length, without padding")
def unequal() -> str:
    return batch_is_right(tiny.unequal_spans("llava"))


@GROUP.refused("A batch that mixes samples with and without pictures")
def mixed(model):
    text = {"input_ids": torch.randint(1, tiny.WORDS, (1, 20)), "attention_mask": torch.ones(1, 20, dtype=torch.long)}
    bench.forward(model, tiny.batch([bench.sample(), text]))


def ran_dense(trace: Trace) -> str:
    """The trace says that nothing was pruned."""
    assert not trace.stages and not trace.schedules, "the trace holds stages of another prompt"
    assert trace.realised_retention == 1
    return "the trace has no stages and a realised retention of 1"


TEXT = {"input_ids": torch.arange(1, 21)[None], "attention_mask": torch.ones(1, 20, dtype=torch.long)}


@GROUP.works("A prompt without a picture")
def text_only() -> str:
    model = bench.model()
    dense = bench.forward(model, TEXT).logits
    with prune(model, bench.METHOD) as trace:
        logits = bench.forward(model, TEXT).logits
        said = ran_dense(trace)
        bench.forward(model, bench.sample())
        counts = bench.dropped(trace)
    assert torch.equal(logits, dense)
    return f"The logits are the dense model's, and {said}. The next prompt has pictures: {counts}."


@GROUP.works("A prompt without a picture after one with a picture, in the same context")
def text_after_picture() -> str:
    model = bench.model()
    dense = bench.generate(model, TEXT)
    with prune(model, bench.METHOD) as trace:
        bench.generate(model, bench.sample())
        counts = bench.dropped(trace)
        output = bench.generate(model, TEXT)
        said = ran_dense(trace)
    assert torch.equal(output.sequences, dense.sequences)
    return f"{counts}; then the dense model's tokens, and {said}."


@GROUP.works("A turn of text behind a picture, its cache kept")
def text_turn(model, one, trace):
    cache = bench.forward(model, one, use_cache=True).past_key_values
    logits = bench.forward(model, {"input_ids": torch.tensor([[11, 23, 35]])}, past_key_values=cache).logits
    right = bench.shortened(trace, one, [11, 23, 35])[1:]
    assert bench.near(logits[0], torch.stack(right))
    return f"{bench.dropped(trace)}; the turn's logits are those of the physically shortened sequence."


@GROUP.refused("A later picture, behind a cached beginning with a picture", size="small")
def later_picture(model, one):
    cache = bench.forward(model, one, use_cache=True).past_key_values
    bench.forward(model, {**one, "attention_mask": torch.ones(1, 2 * one["input_ids"].shape[1])}, past_key_values=cache)


@GROUP.refused("A picture behind a beginning of text that was cached in the context", size="small")
def picture_after_text(model, one):
    cache = bench.forward(model, TEXT, use_cache=True).past_key_values
    mask = torch.ones(1, 20 + one["input_ids"].shape[1], dtype=torch.long)
    bench.forward(model, {**one, "attention_mask": mask}, past_key_values=cache)


@GROUP.refused("A picture behind a beginning of text that was cached before the context")
def picture_after_prefix() -> str:
    model, one = bench.model(), bench.sample("small")
    cache = bench.forward(model, TEXT, use_cache=True).past_key_values
    mask = torch.ones(1, 20 + one["input_ids"].shape[1], dtype=torch.long)
    with prune(model, bench.METHOD):
        bench.forward(model, {**one, "attention_mask": mask}, past_key_values=cache)


@GROUP.refused("A prompt that ends with its picture")
def ends_with_picture(model, one):
    end = int(tiny.visual_rows(one)[-1]) + 1
    bench.forward(model, {n: v[:, :end] if n != "pixel_values" else v for n, v in one.items()})


@GROUP.refused("`inputs_embeds` without `input_ids`")
def embeddings_only(model, one):
    bench.forward(model, {"inputs_embeds": reference.embeddings(tiny.model("llava"), one)[None]})


@GROUP.refused("`generate(inputs_embeds=)`")
def generate_from_embeddings(model, one):
    bench.generate(model, {"inputs_embeds": reference.embeddings(tiny.model("llava"), one)[None]})


@GROUP.refused("An attention mask with four dimensions")
def four_dimensions() -> str:
    tokens = bench.sample()["input_ids"].shape[1]
    return with_changed(attention_mask=torch.ones(1, 1, tokens, tokens, dtype=torch.bool).tril())


GROUP.works("No attention mask", lambda: with_changed(attention_mask=None))


GROUP.works("A boolean attention mask", lambda: with_changed(attention_mask=bench.sample()["attention_mask"].bool()))


@GROUP.works("`position_ids` from the caller")
def own_positions() -> str:
    return with_changed(position_ids=torch.arange(bench.sample()["input_ids"].shape[1])[None])


@GROUP.works("`position_ids` from the caller that begin at 100")
def moved_positions() -> str:
    """Rotary attention knows differences of positions only, so that nothing may change."""
    return with_changed(position_ids=100 + torch.arange(bench.sample()["input_ids"].shape[1])[None])


@GROUP.works("A part of the picture is masked out by the attention mask")
def masked_part(model, one, trace):
    mask = one["attention_mask"].clone()
    gone = tiny.visual_rows(one)[-16:]
    mask[0, gone] = 0
    positions = torch.arange(mask.shape[1])[None]
    logits = bench.forward(model, {**one, "attention_mask": mask, "position_ids": positions}).logits
    stages = reference.stages_of(trace, one)
    first = min(stages)
    assert all(bool(torch.isin(rows, gone).sum() == 0) for rows in stages.values()), "a masked token was kept"
    counts = bench.dropped(trace)
    # Masked tokens are the same as tokens that were dropped before the first layer.
    stages = {0: (mask[0] > 0).nonzero().squeeze(1), **stages}
    right = reference.Decoder(tiny.model("llava")).logits(reference.run(tiny.model("llava"), one, stages).prefill[-1])
    assert first > 0 and bench.near(logits[0, -1:], right[-1:])
    return f"{counts}; the last logits are those of a sequence without the masked and the dropped tokens."


@GROUP.works("Two documents packed in one row, told apart by `position_ids`")
def packed() -> str:
    model, one = bench.model(), bench.sample()
    last = 6
    first = one["input_ids"].shape[1] - last
    inputs: Any = {"input_ids": one["input_ids"], "pixel_values": one["pixel_values"], "use_cache": False}
    inputs["position_ids"] = torch.cat([torch.arange(first), torch.arange(last)])[None]
    alone = bench.forward(model, {"input_ids": one["input_ids"][:, -last:]}).logits[0]
    assert bench.near(bench.forward(model, inputs).logits[0, -last:], alone), "dense documents see each other"
    with prune(model, bench.METHOD) as trace:
        logits = bench.forward(model, inputs).logits
    assert bench.near(logits[0, -last:], alone), "the second document sees the first one"
    return f"{bench.dropped(trace)}; the second document's logits are those that it has alone."


@GROUP.refused("Two documents packed in one row, told apart by `position_ids`, under flash attention")
def packed_under_flash() -> str:
    model, one = bench.model(), bench.sample()
    model.config.get_text_config()._attn_implementation = "flash_attention_2"
    first = one["input_ids"].shape[1] - 6
    positions = torch.cat([torch.arange(first), torch.arange(6)])[None]
    with prune(model, bench.METHOD):
        bench.forward(model, {**one, "position_ids": positions})


@GROUP.refused("Packed documents told apart by `cu_seq_lens_q=` and `cu_seq_lens_k=`")
def packed_by_offsets() -> str:
    tokens = bench.sample()["input_ids"].shape[1]
    offsets = torch.tensor([0, tokens - 6, tokens], dtype=torch.int32)
    lengths = {"max_length_q": tokens - 6, "max_length_k": tokens - 6}
    return with_changed(cu_seq_lens_q=offsets, cu_seq_lens_k=offsets, **lengths)


@GROUP.refused("A keyword of the user's own that reaches the layers and has one entry a token")
def own_keyword() -> str:
    return with_changed(document_ids=torch.zeros_like(bench.sample()["input_ids"]))


@GROUP.works("A keyword of the user's own that reaches the layers and does not speak of tokens")
def keyword_without_tokens() -> str:
    return with_changed(strength=torch.ones(3), name="own")


GROUP.refused("`is_causal=False`", lambda: with_changed(is_causal=False))


def tower_changed(family: str, change: Callable[[Any], None], **options: Any) -> str:
    """VisionZip, on a tower that is another one than when the context opened."""
    model, one = bench.model(family), tiny.sample(family)
    with prune(model, "visionzip", retention=0.5):
        change(model)
        bench.forward(model, one, **options)


@GROUP.refused("`vision_feature_layer=` in the call, with VisionZip")
def other_vision_layer() -> str:
    return tower_changed("llava", lambda _: None, vision_feature_layer=-1)


@GROUP.refused("`config.vision_feature_layer` is set inside the context, with VisionZip")
def other_vision_layer_by_config() -> str:
    return tower_changed("llava", lambda model: setattr(model.config, "vision_feature_layer", -1))


@GROUP.refused("`generate(vision_feature_layer=)`, with VisionZip", method="visionzip")
def other_vision_layer_in_generate(model, one):
    bench.generate(model, one, vision_feature_layer=-1)


@GROUP.refused("The windows of Qwen2.5-VL's tower are changed inside the context, with VisionZip")
def other_windows() -> str:
    return tower_changed("qwen2_5_vl", lambda model: setattr(model.model.visual, "window_size", 8))


def picture_features(model: Any, one: bench.Inputs) -> Any:
    """What the tower and the projector make of the picture."""
    with torch.no_grad():
        return model.model.get_image_features(one["pixel_values"], return_dict=True)


@GROUP.works("`mm_encoder_outputs=` instead of `pixel_values`")
def encoded_picture(model, one):
    tiny.needs(5, 18, "mm_encoder_outputs is ignored")
    ids = {name: one[name] for name in ("input_ids", "attention_mask")}
    return bench.forward(model, ids, mm_encoder_outputs={"image": picture_features(model, one)}).logits


@GROUP.refused("`mm_encoder_outputs=` with a method that looks into the tower (VisionZip); the tower has not run")
def encoded_before() -> str:
    model, one = bench.model(), bench.sample()
    features = picture_features(model, one)
    ids = {name: one[name] for name in ("input_ids", "attention_mask")}
    with prune(model, "visionzip", retention=0.5):
        bench.forward(model, ids, mm_encoder_outputs={"image": features})


@GROUP.refused("`mm_encoder_outputs=` with VisionZip; the tower has run on another picture, outside a forward")
def encoded_after_another() -> str:
    model, one = bench.model(), bench.sample()
    features = picture_features(model, one)
    ids = {name: one[name] for name in ("input_ids", "attention_mask")}
    with prune(model, "visionzip", retention=0.5):
        picture_features(model, bench.sample(seed=7))
        bench.forward(model, ids, mm_encoder_outputs={"image": features})
