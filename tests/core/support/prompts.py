"""Prompts: batches, padding, pictures, text without pictures, masks, positions."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tests.core import tiny
from tests.core.models.test_families import dense_layers, shortened, stages_of
from tests.core.support import bench
from tests.core.support.rows import Group
from trio_core import prune
from trio_core.trace import Trace

GROUP = Group("Prompts and batches")
LENGTH = bench.sample()["input_ids"].shape[1]
"""Tokens of the large sample."""


def batch_is_right(samples: list[bench.Inputs], side: str = "left") -> None:
    """A forward of a batch: the logits of each sample are those of its shortened sequence."""
    model, inputs = bench.model(), tiny.batch(samples, side)
    with prune(model, bench.METHOD) as trace:
        logits = bench.forward(model, inputs).logits
    for row, one in enumerate(samples):
        bench.dropped(trace, row)
        left = bench.rows_left(trace, one, logits[row], row, side)
        assert bench.near(left, bench.shortened(trace, one, row=row)), f"sample {row} is another one"


GROUP.works("One picture", bench.forward, size="small")
GROUP.works("Several pictures in one prompt", bench.forward)
_lengths = [bench.sample(after=7), bench.sample(before=9, after=12, seed=1)]
_pictures = [bench.sample("small", seed=1), bench.sample()]
GROUP.works("A batch with padding on the left", partial(batch_is_right, _lengths))
GROUP.works("A batch with padding on the right", partial(batch_is_right, _lengths, "right"))
GROUP.works("A batch with unequal pictures and padding", partial(batch_is_right, _pictures))
GROUP.works(
    "A batch with unequal pictures of one length, without padding",
    partial(batch_is_right, tiny.unequal_spans("llava")),
)


TEXT = {"input_ids": torch.arange(1, 21)[None], "attention_mask": torch.ones(1, 20, dtype=torch.long)}
GROUP.refused(
    "A batch that mixes samples with and without pictures",
    lambda model: bench.forward(model, tiny.batch([bench.sample(), TEXT])),
)


def ran_dense(trace: Trace) -> None:
    """The trace says that nothing was pruned."""
    assert not trace.stages and not trace.schedules, "the trace holds stages of another prompt"
    assert trace.realised_retention == 1
    assert trace.notes == ("no visual tokens in the prompt: it ran dense",)


@GROUP.works("A prompt without a picture")
def text_only() -> None:
    model = bench.model()
    dense = bench.forward(model, TEXT).logits
    with prune(model, bench.METHOD) as trace:
        assert torch.equal(bench.forward(model, TEXT).logits, dense)
        ran_dense(trace)
        bench.forward(model, bench.sample())
        bench.dropped(trace)


@GROUP.works("A prompt without a picture after one with a picture, in the same context")
def text_after_picture() -> None:
    model = bench.model()
    dense = bench.generate(model, TEXT)
    with prune(model, bench.METHOD) as trace:
        bench.generate(model, bench.sample())
        bench.dropped(trace)
        assert torch.equal(bench.generate(model, TEXT).sequences, dense.sequences)
        ran_dense(trace)


@GROUP.works("A turn of text behind a picture, its cache kept")
def text_turn(model, one, trace):
    cache = bench.forward(model, one, use_cache=True)[tiny.CACHE]
    logits = bench.forward(model, {"input_ids": torch.tensor([[11, 23, 35]])}, **{tiny.CACHE: cache}).logits
    bench.steps_are_right(trace, one, logits[0], [11, 23, 35])


def after_cached(model: Any, one: bench.Inputs, cache: Any) -> None:
    """A forward of a prompt behind a cache."""
    mask = torch.ones(1, cache.get_seq_length() + one["input_ids"].shape[1], dtype=torch.long)
    bench.forward(model, one, attention_mask=mask, **{tiny.CACHE: cache})


@GROUP.refused("A later picture, behind a cached beginning with a picture", size="small")
def later_picture(model, one):
    after_cached(model, one, bench.forward(model, one, use_cache=True)[tiny.CACHE])


@GROUP.refused("A picture behind a beginning of text that was cached in the context", size="small")
def picture_after_text(model, one):
    after_cached(model, one, bench.forward(model, TEXT, use_cache=True)[tiny.CACHE])


@GROUP.refused("A picture behind a beginning of text that was cached before the context")
def picture_after_prefix() -> None:
    model = bench.model()
    cache = bench.forward(model, TEXT, use_cache=True)[tiny.CACHE]
    with prune(model, bench.METHOD):
        after_cached(model, bench.sample("small"), cache)


@GROUP.refused("A prompt that ends with its picture")
def ends_with_picture(model, one):
    end = int(tiny.visual_rows(one)[-1]) + 1
    bench.forward(model, {n: v[:, :end] if n != "pixel_values" else v for n, v in one.items()})


for _title, _call in (
    ("`inputs_embeds` without `input_ids`", bench.forward),
    ("`generate(inputs_embeds=)`", bench.generate),
):

    @GROUP.refused(_title)
    def embeddings_only(model, one, call=_call):
        call(model, {"inputs_embeds": dense_layers(tiny.model("llava"), one)[0][0]})


GROUP.refused(
    "An attention mask with four dimensions",
    partial(bench.forward, attention_mask=torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool).tril()),
)
GROUP.works("No attention mask", partial(bench.forward, attention_mask=None))
GROUP.works("A boolean attention mask", partial(bench.forward, attention_mask=torch.ones(1, LENGTH, dtype=torch.bool)))
_positions = torch.arange(LENGTH)[None]
GROUP.works("`position_ids` from the caller", partial(bench.forward, position_ids=_positions))
# Rotary attention knows differences of positions only, so that nothing may change.
GROUP.works("`position_ids` from the caller that begin at 100", partial(bench.forward, position_ids=100 + _positions))


@GROUP.works("A part of the picture is masked out by the attention mask")
def masked_part(model, one, trace):
    """Masked tokens are the same as tokens that were dropped before the first layer."""
    mask = one["attention_mask"].clone()
    gone = tiny.visual_rows(one)[-16:]
    mask[0, gone] = 0
    logits = bench.forward(model, one, attention_mask=mask, position_ids=_positions).logits
    stages = stages_of(trace, one)
    assert min(stages) > 0 and not any(torch.isin(rows, gone).any() for rows in stages.values()), "a masked one stays"
    stages = {0: (mask[0] > 0).nonzero().squeeze(1), **stages}
    right = shortened(tiny.model("llava"), one, (), stages)[1]
    assert bench.near(logits[0, -1:], right[-1:])


_documents = torch.cat([torch.arange(LENGTH - 6), torch.arange(6)])[None]


@GROUP.works("Two documents packed in one row, told apart by `position_ids`")
def packed(model, one):
    packing = {"attention_mask": None, "use_cache": False, "position_ids": _documents}
    dense = tiny.model("llava")
    alone = bench.forward(dense, {"input_ids": one["input_ids"][:, -6:]}).logits[0]
    assert bench.near(bench.forward(dense, one, **packing).logits[0, -6:], alone), "dense documents see each other"
    logits = bench.forward(model, one, **packing).logits
    assert bench.near(logits[0, -6:], alone), "the second document sees the first one"


@GROUP.refused("Two documents packed in one row, told apart by `position_ids`, under flash attention")
def packed_under_flash() -> None:
    model = bench.model()
    model.config.get_text_config()._attn_implementation = "flash_attention_2"
    with prune(model, bench.METHOD):
        bench.forward(model, bench.sample(), position_ids=_documents)


_offsets = torch.tensor([0, LENGTH - 6, LENGTH], dtype=torch.int32)
GROUP.refused(
    "Packed documents told apart by `cu_seq_lens_q=` and `cu_seq_lens_k=`",
    partial(
        bench.forward,
        cu_seq_lens_q=_offsets,
        cu_seq_lens_k=_offsets,
        max_length_q=LENGTH - 6,
        max_length_k=LENGTH - 6,
    ),
)
GROUP.refused(
    "A keyword of the user's own that reaches the layers", partial(bench.forward, strength=torch.ones(3), name="own")
)
GROUP.refused("`is_causal=False`", partial(bench.forward, is_causal=False))


# --- the tower -------------------------------------------------------------------------------------------------------


def tower_changed(family: str, change: Callable[[Any], None]) -> None:
    """VisionZip, on a tower that is another one than when the context opened."""
    model = bench.model(family)
    with prune(model, "visionzip", retention=0.5):
        change(model)
        bench.forward(model, tiny.sample(family))


GROUP.refused(
    "`vision_feature_layer=` in the call, with VisionZip",
    partial(bench.forward, vision_feature_layer=-1),
    method="visionzip",
)
GROUP.refused(
    "`config.vision_feature_layer` is set inside the context, with VisionZip",
    partial(tower_changed, "llava", lambda model: setattr(model.config, "vision_feature_layer", -1)),
)
GROUP.refused(
    "`generate(vision_feature_layer=)`, with VisionZip",
    partial(bench.generate, vision_feature_layer=-1),
    method="visionzip",
)
GROUP.refused(
    "The windows of Qwen2.5-VL's tower are changed inside the context, with VisionZip",
    partial(tower_changed, "qwen2_5_vl", lambda model: setattr(model.model.visual, "window_size", 8)),
)


def encoded(model: Any, one: bench.Inputs) -> Any:
    """A forward that is given what the tower and the projector made of the picture."""
    with torch.no_grad():
        features = tiny.model("llava").model.get_image_features(one["pixel_values"], return_dict=True)
    return bench.forward(model, one, pixel_values=None, mm_encoder_outputs={"image": features})


@GROUP.works("`mm_encoder_outputs=` instead of `pixel_values`")
def encoded_picture(model, one):
    return encoded(model, one)


GROUP.refused(
    "`mm_encoder_outputs=` with a method that looks into the tower (VisionZip); the tower has not run",
    encoded,
    method="visionzip",
)


@GROUP.refused(
    "`mm_encoder_outputs=` with VisionZip; the tower has run on another picture, outside a forward", method="visionzip"
)
def encoded_after_another(model, one):
    model.model.get_image_features(bench.sample(seed=7)["pixel_values"], return_dict=True)
    encoded(model, one)
