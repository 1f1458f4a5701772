"""Videos as frames: what a method sees of them, what it may refuse, and what holds for every method on videos."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from tests.core import tiny
from tests.core.engine.test_hidden_keys import METHODS, prunes
from tests.core.methods.test_methods import BUILT_IN
from tests.core.models.test_families import CLOSE, apart
from trio_core import OptionError, Selection, View, methods, prune
from trio_core.errors import UnsupportedInput
from trio_core.methods.combined import combine
from trio_core.methods.divprune import DivPrune
from trio_core.methods.evs import Evs, dissimilarity
from trio_core.methods.method import Method, Reference, registry
from trio_core.methods.view import Signal
from trio_core.models import adapter_for
from trio_core.models.adapter import VideoShape

VIDEO_ONLY = [name for name in BUILT_IN if methods.find(name).media == "videos"]
every_video_family = pytest.mark.parametrize("family", tiny.fast_first(tiny.WITH_VIDEOS, "llava_onevision"))


@dataclass(frozen=True, kw_only=True)
class Watching(Method):
    """Keeps the first tokens, and remembers what it saw of the frames."""

    name: ClassVar[str] = "watching"
    reference: ClassVar[Reference] = Reference(title="a test", kind="control")
    seen: ClassVar[list[tuple[list[list[list[int]]], list[int]]]] = []

    def select(self, view: View) -> Selection:
        self.seen.extend(([video.number.tolist() for video in s.videos], s.frame.tolist()) for s in view.samples)
        return Selection(tuple(torch.arange(sample.budget) + 1 for sample in view.samples))


registry.pop("watching")  # it is no method of the library


def methods_of(family: str) -> list[str]:
    """The methods that prune videos of a family."""
    return [name for name in BUILT_IN if prunes(family, name, METHODS[name])]


def frames_seen(family: str) -> list[tuple[list[list[list[int]]], list[int]]]:
    """The videos of a batch, and the frame of each token, at two stages."""
    Watching.seen.clear()
    method = Watching(layers=(1, 2), budgets=(8, 4))
    tiny.run(tiny.model(family), tiny.batch(tiny.videos(family)), method)
    return [*Watching.seen]


# --- what a method sees ----------------------------------------------------------------------------------------------


def test_frames_of_qwen_follow_the_grids():
    """One video of 3 frames of 4 tokens; another sample has one more of 2 frames."""
    one, two, later, _ = frames_seen("qwen2_5_vl")
    first = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert one == ([first], [0] * 4 + [1] * 4 + [2] * 4)
    assert two[0] == [first, [[12, 13, 14, 15], [16, 17, 18, 19]]]
    assert two[1] == [frame for frame in range(5) for _ in range(4)]
    assert later[1] == [0] * 3 + [1] * 4 + [2]  # the first stage kept the tokens 1 … 8


def test_text_between_the_frames_does_not_matter():
    assert frames_seen("qwen3_vl") == frames_seen("qwen2_5_vl")


def test_a_newline_is_in_no_frame():
    one, two, *_ = frames_seen("llava_onevision")
    assert one[1] == [0] * 4 + [1] * 4 + [2] * 4 + [-1]
    assert two[1] == [*one[1][:-1], -1, *(frame + 3 for frame in one[1][:-1]), -1]


def test_videos_as_the_arguments_describe_them():
    qwen, llava = (adapter_for(tiny.model(family)) for family in ("qwen2_vl", "llava_onevision"))
    grids = {"video_grid_thw": torch.tensor([[3, 4, 6]])}
    assert qwen.videos(grids, 18) == (VideoShape(3, 6),)
    assert qwen.videos(grids, 17) == qwen.videos({}, 18) == ()
    pixels = torch.zeros(2, 3, 3, 8, 8)
    assert llava.videos({"pixel_values_videos": pixels}, 26) == (VideoShape(3, 4, 1),) * 2
    assert llava.videos({"pixel_values_videos": pixels}, 27) == ()
    assert llava.videos({"pixel_values_videos": pixels[0]}, 13) == ()


# --- what a method refuses -------------------------------------------------------------------------------------------


def test_a_method_for_videos_refuses_pictures_in_one_line():
    for name in VIDEO_ONLY:
        with tiny.refused(UnsupportedInput, f"sample 0 of the batch has no video .*{name}.* give it a video"):
            tiny.run(tiny.model("llava"), tiny.sample("llava"), name, retention=0.5)


def test_a_method_for_pictures_refuses_videos_in_one_line(monkeypatch):
    monkeypatch.setattr(DivPrune, "media", "pictures")
    with tiny.refused(UnsupportedInput, "sample 0 of the batch has a video, and method 'divprune' is for pictures"):
        tiny.run(tiny.model("qwen2_vl"), tiny.videos("qwen2_vl")[0], "divprune", retention=0.5)
    tiny.run(tiny.model("qwen2_vl"), tiny.sample("qwen2_vl", "small"), "divprune", retention=0.5)


def test_a_combination_is_for_what_both_parts_are_for(monkeypatch):
    assert combine(Evs, methods.find("fastv"))(retention=0.5).media == "videos"
    monkeypatch.setattr(methods.find("fastv"), "media", "pictures")
    with tiny.refused(OptionError, "evs.fastv: one part is for pictures only"):
        combine(Evs, methods.find("fastv"))(retention=0.5)


# --- laws ------------------------------------------------------------------------------------------------------------


@every_video_family
@pytest.mark.parametrize("side", tiny.fast_first(["left", "right"], "left"))
def test_a_method_keeps_its_budget_in_order_whatever_stands_beside_the_sample(family, side):
    model, samples = tiny.model(family), tiny.videos(family)
    counts = [len(tiny.visual_rows(one)) for one in samples]
    for name in methods_of(family):
        method = methods.find(name)(retention=0.5)
        alone = [tiny.run(model, one, method) for one in samples]
        logits, together = tiny.run(model, tiny.batch(samples, side), method)
        for b, (own, trace) in enumerate(alone):
            # A stage of another sample alone drops nothing of this one.
            assert trace.schedules[0].tokens_by_layer == together.schedules[b].tokens_by_layer, name
            at = {stage.layer: stage for stage in together.stages}
            for stage, budget in zip(trace.stages, trace.schedules[0].budgets, strict=True):
                kept = stage.kept[0]
                assert torch.equal(kept, at[stage.layer].kept[b]), name
                assert len(kept) == budget and (kept.diff() > 0).all(), name
                assert not len(kept) or 0 <= kept[0] <= kept[-1] < counts[b], name
            assert apart(logits[b, together.places[b][-1]], own[0, -1]) < 5 * CLOSE, name


@every_video_family
def test_at_retention_1_a_method_gives_the_dense_model_to_the_last_bit(family):
    inputs, model = tiny.batch(tiny.videos(family)), tiny.model(family)
    with torch.no_grad():
        dense = model(**inputs, use_cache=False).logits
    for name in methods_of(family):
        assert torch.equal(tiny.run(model, inputs, name, retention=1.0)[0], dense), name


def test_a_picture_beside_a_video_takes_part_in_the_budget():
    """The large sample of Qwen2-VL has both. Methods that read the tower refuse it."""
    model, both = tiny.model("qwen2_vl"), tiny.sample("qwen2_vl")
    assert {"image_grid_thw", "video_grid_thw"} <= both.keys()
    for name in methods_of("qwen2_vl"):
        if Signal.ENCODER in methods.find(name).needs:
            with tiny.refused(UnsupportedInput, "take pictures or videos, not both in one batch"):
                tiny.run(model, both, name, retention=0.5)
        else:
            trace = tiny.run(model, both, name, retention=0.5)[1]
            assert [len(stage.kept[0]) for stage in trace.stages] == list(trace.schedules[0].budgets), name


# --- EVS, worked by hand ---------------------------------------------------------------------------------------------

FRAMES = torch.tensor([[[1.0, 0.0], [0.0, 2.0]], [[3.0, 0.0], [1.0, 0.0]], [[-1.0, 0.0], [1.0, 1.0]]])
"""Three frames of two tokens. The first place stays and then turns round. The second one turns by 90°, then by 45°."""


def test_dissimilarity_is_one_minus_the_cosine_at_the_same_place():
    expected = torch.tensor([[255.0, 255.0], [0.0, 1.0], [2.0, 1 - 0.5**0.5]])
    assert torch.allclose(dissimilarity(FRAMES), expected)
    assert dissimilarity(FRAMES[:1]).tolist() == [[255.0, 255.0]]


def test_evs_keeps_first_frames_and_then_what_changed_most():
    """A newline stays with them. The rest in order of change: token 4, token 3, token 5, token 2."""
    features = torch.cat([FRAMES.view(6, 2), torch.ones(1, 2)])
    order = [0, 1, 6, 4, 3, 5, 2]
    for budget in range(1, 8):
        view = tiny.video_view(features, [[0, 1], [2, 3], [4, 5]], budget)
        assert Evs(retention=0.5).select(view).kept[0].tolist() == sorted(order[:budget]), budget


@pytest.mark.parametrize(("family", "name"), [("qwen2_5_vl", "evs"), ("llava_onevision", "fastvid")])
def test_beams_of_a_sample_see_its_frames(family, name):
    """generate() runs the tower once and then repeats the samples."""
    model, inputs = tiny.model(family), tiny.batch(tiny.videos(family))
    one_each = tiny.run(model, inputs, name, retention=0.5)[1].stages[0].kept
    with prune(model, name, retention=0.5) as trace:
        tiny.generate(model, inputs, 1, num_beams=2)
    first, again, second, _ = trace.stages[0].kept
    assert first.tolist() == again.tolist() == one_each[0].tolist()
    assert second.tolist() == one_each[1].tolist()
