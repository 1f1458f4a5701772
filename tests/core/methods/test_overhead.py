"""What a method says its selection costs is what torch counts; and how often the host waits meanwhile."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedModel

from tests.core import tiny
from tests.core.methods.test_methods import BUILT_IN, FOR_PICTURES
from tests.core.rules.drawn import Waits
from trio_core import Trio, methods, prune
from trio_core.methods import fitprune
from trio_core.methods.fitprune import FitPrune
from trio_core.methods.method import Method
from trio_core.methods.pact import Pact
from trio_core.models import adapter_for
from trio_core.rules import nms
from trio_core.rules.cost import LayerShape, PromptSizes, Sizes
from trio_core.spans import listening


def made(name: str, **options: Any) -> Method:
    """A method by its name. Suppression is off: how many blocks it takes depends on the tokens."""
    cls = methods.find(name)
    off = {"nms": False} if "nms" in cls.option_names() else {}
    return cls(**({"retention": 0.5} if "budgets" not in options else {}) | off | options)


def during_selections(read: Callable[[], int], run: Callable[[], object]) -> list[int]:
    """By how much a number grows inside each span `selection` of a run."""
    marks: list[int] = []

    def note(name: str, _entering: bool) -> None:
        if name == "selection":
            marks.append(read())

    with listening(note):
        run()
    return [left - entered for entered, left in zip(marks[::2], marks[1::2], strict=True)]


def counted(family: str, one: dict[str, Tensor], method: Method) -> list[tuple[int, int]]:
    """Of each stage that drops: MACs counted inside the span `selection`, and those declared."""
    model, visual = tiny.model(family, "eager"), tiny.visual_rows(one)
    with prune(model, method) as trace, torch.no_grad(), FlopCounterMode(display=False) as counter:
        flops = during_selections(counter.get_total_flops, lambda: model(**one))
    adapter, text = adapter_for(model), one["input_ids"].shape[1] - len(visual)
    after = one["input_ids"].shape[1] - 1 - int(visual[-1])
    frames = sum(video.frames for video in adapter.videos(one, int((one["input_ids"] == tiny.VIDEO).sum())))
    shape = replace(adapter.layer_shape, frames=frames)
    declared = [
        method.overhead(
            shape, s.layer, Sizes(text + s.tokens_before, s.tokens_before, s.tokens_after, after, len(visual))
        )
        for s in trace.stages
        if s.tokens_after < s.tokens_before
    ]
    prompt = PromptSizes(len(visual), text, after)
    assert sum(declared) == method.selection_macs(shape, trace.schedules[0], prompt)
    assert not any(count % 2 for count in flops)
    return list(zip([count // 2 for count in flops], declared, strict=True))


def declared_is_counted(family: str, one: dict[str, Tensor], method: Method, near: float = 0.0) -> None:
    """near: how far the declared number may be off."""
    for counts, declared in counted(family, one, method):
        assert declared > 0 and counts == pytest.approx(declared, rel=near), (
            f"{method.name} in {family}: {counts} counted, {declared} declared"
        )


# --- what it costs ---------------------------------------------------------------------------------------------------

TWICE: dict[str, Any] = {"layers": (1, 3)}
ANYWHERE = [
    ("fastv", {}),
    ("pyramiddrop", TWICE),
    ("divprune", {}),
    ("dart", {}),
    ("dart-embeddings", {"pivots_visual": 1}),
    ("fitprune", {"retention": 0.6, "layers": (1, 2, 4)}),  # at each of which something goes
    ("lookahead", TWICE),
    ("lookahead", TWICE | {"k_pos": 1}),
    ("pact", {"retention": 0.4}),
    ("prunevid", {}),
    ("sparsevlm", {}),
    ("sparsevlm", {"recycle": False}),
    ("sparsevlm", {"version": "v2"}),
    ("topv", TWICE),
    ("trio", TWICE),
    ("trio", TWICE | {"probe": "current", "k_pos": 2}),
    ("trio", TWICE | {"saliency": "autograd"}),
]
"""Methods that read no tower. Each with options."""
TOWER: dict[str, tuple[float, list[dict[str, Any]]]] = {
    "cdpruner": (0.3, [{"retention": 0.17}]),
    "downsample": (0.2, [{"retention": share} for share in (0.2, 0.8)]),
    "fastervlm": (0.3, [{}]),
    "holov": (0.3, [{"chunks": 3}]),
    "prumerge": (0.2, [{"retention": share, "plus": plus} for share, plus in ((0.1, True), (0.5, False))]),
    "scope": (0.3, [{}, {"budgets": (2,), "layers": (0,)}]),
    "split-cdpruner": (0.3, [{}, {"split": False}]),
    "tome": (0.2, [{"retention": share} for share in (0.2, 0.5, 0.8)]),  # several rounds, one, and part of one
    "trio-ve": (0.3, [{"retention": 0.4}, {"retention": 0.4, "saliency": "autograd"}]),
    "vispruner": (0.3, [{}]),
    "visionzip": (0.1, [{"retention": 0.2, "contextual_share": share} for share in (0.0, 10 / 64, 0.95)]),
    "visionzip+trio": (0.3, [{"budgets": (5, 4, 3), "layers": (0, 1, 3)}]),
}
"""Methods that read the tower: how far the estimate for cut tiles may be off, and options."""
WHOLE, CUT = {"llava", "qwen2_5_vl"}, {"llava_next", "llava_onevision"}
"""Families whose crops are whole, and those whose tiles are cut to fit."""
VIDEO: dict[str, dict[str, Any]] = {
    "fastvid": {"retention": 0.75, "segments": 3},
    "framefusion": {},
    "holitom": {"similarity": 1.0},
    "prunevid": {"similarity": 1.0},
}
"""Methods for videos. Options with which a video of three frames costs what is declared."""
FREE = {"dycoke", "evs", "grid", "pixelprune", "random", "vidcom2", "vtw"}


def test_every_method_is_here():
    derived = {"trio-printed", "trio-released"}
    assert {name for name, _ in ANYWHERE} | TOWER.keys() | VIDEO.keys() | FREE | derived == {
        *BUILT_IN,
        "visionzip+trio",
    }


@pytest.mark.parametrize(
    ("family", "cases"),
    [
        ("qwen2_5_vl", dict(reversed(ANYWHERE)).items()),  # the first options of each
        *(pytest.param(family, ANYWHERE, marks=tiny.SLOW) for family in tiny.FAMILIES),
    ],
)
def test_declared_overhead_is_what_is_counted(family, cases):
    """Under eager attention, whose backward has the products that the formula counts; grouped and normed keys too."""
    one = tiny.sample(family)
    for name, options in cases:  # PruneVid's cost of a picture beside a video is not declared
        shown = tiny.without_videos(one) if name == "prunevid" else one
        declared_is_counted(family, shown, made(name, **options))


@pytest.mark.parametrize(
    ("family", "size", "variants"),
    [
        ("llava", "large", 1),
        *(pytest.param(*case, None, marks=tiny.SLOW) for case in product(sorted(WHOLE | CUT), ("small", "large"))),
    ],
)
def test_declared_overhead_is_what_is_counted_in_the_tower(family, size, variants):
    """Exactly for whole crops. For tiles that are cut to fit it is estimated from the visual tokens."""
    one = tiny.without_videos(tiny.sample(family, size))
    for name, (near, every) in TOWER.items():
        if name == "prumerge" and family not in ("llava", "llava_next"):
            continue
        for options in every[:variants]:
            declared_is_counted(family, one, made(name, **options), near * (family in CUT))


@pytest.mark.parametrize("family", ["gemma3", "gemma4", "qwen3_vl"])
def test_declared_overhead_of_the_control_is_what_is_counted_in_a_tower_that_cannot_be_read(family):
    declared_is_counted(family, tiny.sample(family, "small"), made("downsample"))


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llava_onevision", "llava_next_video", "qwen2_5_vl"])
@pytest.mark.parametrize("name", [*VIDEO, *(name for name in TOWER if name != "prumerge")])
def test_declared_overhead_is_what_is_counted_in_a_video(name, family):
    """Exactly, except that some methods count LLaVA-OneVision's newline as a patch."""
    near = 0.03 if name == "cdpruner" and family == "llava_onevision" else 0
    for options in [VIDEO[name]] if name in VIDEO else TOWER[name][1]:
        declared_is_counted(family, tiny.videos(family)[0], made(name, **options), near)


@pytest.mark.slow
def test_more_options_cost_what_they_declare(monkeypatch):
    for family, name, options in (
        ("llava", "dart", {"layers": (1, 3), "pivots_visual": 2, "pivots_text": 30}),
        ("qwen2_5_vl", "dart", {"budgets": (3,), "layers": (2,)}),
        ("qwen2_5_vl", "pact", {"retention": 0.4, "layers": (1, 3), "share": 1.0}),
        ("llava_next", "pact", {"retention": 0.9, "share": 0.2}),
        # The words are told apart at the first stage that drops, here the second of four, and not again.
        ("llava", "sparsevlm", {"layers": (1, 2, 3, 4), "budgets": (32, 16, 10, 8)}),
    ):
        declared_is_counted(family, tiny.sample(family), made(name, **options))
    declared_is_counted("llava", tiny.sample("llava"), Pact(retention=0.8, merge=False))
    monkeypatch.setattr(fitprune, "BLOCK", 4)
    declared_is_counted("llava_next", tiny.sample("llava_next"), FitPrune(retention=0.6, layers=(1, 2, 4)))
    assert counted("llava", tiny.sample("llava"), made("vtw")) == [(0, 0)]


SHAPE = LayerShape(hidden=8, intermediate=16, query_width=8, kv_width=4, heads=2, vocabulary=32, ffn_matrices=3)


def test_suppression_costs_the_similarity_of_all_pairs():
    trio, plain = (Trio(retention=0.5, nms=nms).overhead(SHAPE, 1, Sizes(20, 10, 5, 6)) for nms in (True, False))
    assert trio - plain == 10 * 10 * 8


# --- how often the host waits ----------------------------------------------------------------------------------------


@cache
def of_size(side: int) -> tuple[PreTrainedModel, dict[str, Tensor]]:
    """LLaVA-1.5's toy with side × side visual tokens, and a sample for it."""
    model = tiny.variant("llava", text={"max_position_embeddings": 2048}, vision={"image_size": 4 * side})
    pixels = torch.randn(1, 3, 4 * side, 4 * side, generator=torch.Generator().manual_seed(0))
    ids = torch.tensor([[5, 6, 7, *[tiny.IMAGE] * side**2, *range(8, 17)]])
    return model, {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": pixels}


def waits_per_stage(side: int, method: Method) -> list[int]:
    """Operators inside the span `selection` for which the host waits, were the tensors on a device."""
    model, inputs = of_size(side)
    with prune(model, method), torch.no_grad():
        model(**inputs)  # the first prefill on a model also checks what the method kept
        with Waits() as waits:
            return during_selections(waits.counts.total, lambda: model(**inputs))


TWO = dict.fromkeys(("sparsevlm", "split-cdpruner", "visionzip"), 2)
WAITS = dict.fromkeys(FOR_PICTURES, 1) | {"random": 0, "grid": 0, "vtw": 0, "dart": 3, "dart-embeddings": 5} | TWO
"""For the check of the inputs. VisionZip checks what it ranks and what it merges, split CDPruner each half."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FOR_PICTURES)
def test_the_host_waits_as_often_for_many_tokens_as_for_few(name):
    for side, retention in ((8, 0.5), (24, 0.8)):
        assert set(waits_per_stage(side, made(name, retention=retention))) == {WAITS[name]}, (side, retention)


def test_trio_waits_once_on_an_accelerator_whatever_is_suppressed(monkeypatch):
    """There the first block holds all candidates. The waits of a CPU, which cost nothing, are up to 7 in this toy."""
    monkeypatch.setattr(nms, "_LEAST_BLOCK", nms._AT_ONCE)
    monkeypatch.setattr(nms, "_MOST_BLOCK", nms._AT_ONCE)
    for side, retention, threshold in ((8, 0.5, 0.1), (24, 0.22, 0.95), (24, 0.8, 0.1)):
        assert waits_per_stage(side, Trio(retention=retention, layers=(1,), threshold=threshold)) == [1]
