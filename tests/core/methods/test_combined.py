"""Combinations of an encoder method and a decoder method: against running one and then the other, and their budgets."""

import copy
import pickle
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import Any, ClassVar, Literal

import pytest
import torch
from torch import Tensor

from tests.core import tiny
from tests.core.methods.test_methods import FOR_PICTURES
from trio_core import OptionError, Selection, Trio, View, methods, prune
from trio_core.methods.combined import split
from trio_core.methods.method import Method, Reference, Stage
from trio_core.models import adapter_for

ENCODER = [name for name in FOR_PICTURES if methods.find(name).stage is Stage.ENCODER]
DECODER = [name for name in FOR_PICTURES if methods.find(name).stage is Stage.DECODER]


@torch.inference_mode()
def one_after_the_other(one: dict[str, Tensor], first: Method, second: Method) -> tuple[Tensor, dict[int, Tensor]]:
    """What each method keeps if they run apart on LLaVA's toy: the numbers after the first, and by layer after that.

    first: runs alone. second: runs alone too, on a prompt that has only the tokens that `first` left: their embeddings
    and positions are given to the model.
    """
    model, entered = tiny.model("llava"), []
    layer = adapter_for(model).layers[0]
    with prune(model, first) as trace:

        def note(_layer: object, args: tuple[Tensor], kwargs: dict[str, Tensor]) -> None:
            entered.append((args[0], kwargs["position_ids"]))

        with tiny.attached([layer.register_forward_pre_hook(note, with_kwargs=True)]):
            model(**one, use_cache=False)
    ((embedded, positions),) = entered
    kept, visual = trace.stages[0].kept[0], tiny.visual_rows(one)
    left = torch.ones_like(one["input_ids"][0], dtype=torch.bool).index_fill(0, visual, False)
    left[visual[kept]] = True
    with tiny.attached([model.get_input_embeddings().register_forward_hook(lambda *_: embedded)]):
        ids = one["input_ids"][:, left]
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "position_ids": positions}
        trace = tiny.run(model, inputs, second)[1]
    return kept, {stage.layer: kept[stage.kept[0]] for stage in trace.stages}


# --- what it keeps ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decoder", ["trio", "sparsevlm"])
@pytest.mark.parametrize("encoder", tiny.fast_first(ENCODER, "divprune", "visionzip"))
def test_it_keeps_what_one_method_after_the_other_keeps(encoder, decoder):
    """TRIO reads the layers; SparseVLM reads what entered the decoder, which is what the first method left."""
    one, layers, budgets = tiny.sample("llava"), (0, 1, 3), (18, 11, 5)
    method = methods.find(f"{encoder}+{decoder}")(layers=layers, budgets=budgets)
    trace = tiny.prefill(tiny.model("llava"), [one], method)
    first = methods.find(encoder)(layers=(0,), budgets=budgets[:1])
    second = methods.find(decoder)(layers=layers[1:], budgets=budgets[1:])
    kept, later = one_after_the_other(one, first, second)
    assert [stage.layer for stage in trace.stages] == [*layers]
    assert torch.equal(trace.stages[0].kept[0], kept) and len(kept) == 18
    for stage in trace.stages[1:]:
        assert torch.equal(stage.kept[0], later[stage.layer])


@pytest.mark.parametrize("decoder", tiny.fast_first(DECODER, "fastv", "prunevid", "vtw"))
def test_each_decoder_method_runs_behind_divprune_and_is_dense_at_retention_1(decoder):
    cls, model, inputs = methods.find(f"divprune+{decoder}"), tiny.model("llava"), tiny.batch(tiny.pair("llava"))
    trace = tiny.prefill(model, tiny.pair("llava"), cls(retention=0.6))
    assert trace.stages[0].layer == 0 and 0 < trace.realised_retention < 1
    with torch.inference_mode():
        dense = model(**inputs).logits
        with prune(model, cls(retention=1.0)):
            assert torch.equal(model(**inputs).logits, dense)


# --- budgets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("retention", "visual_tokens"), [(0.2, 576), (0.77, 2880)])
@pytest.mark.parametrize("name", ["visionzip+trio", "divprune+fastv", "scope+pyramiddrop", "tome+fitprune"])
def test_each_part_keeps_the_square_root_and_both_keep_the_retention(name, retention, visual_tokens):
    schedule = methods.find(name)(retention=retention).schedule(visual_tokens, 32)
    total = round(32 * retention * visual_tokens)
    step = gcd(*(b - a for a, b in pairwise((*schedule.layers, 32))))  # each stage costs a multiple of it
    assert abs(sum(schedule.tokens_by_layer) - total) == min(total % step, -total % step)
    first, second = split(schedule)
    assert first.layer_average == pytest.approx(retention**0.5, abs=1 / 64)
    assert second.layer_average == pytest.approx(retention**0.5, rel=0.05)
    alone = methods.find(name.partition("+")[2])(retention=second.layer_average).schedule(second.visual_tokens, 32)
    assert second == alone


def test_encoder_retention_sets_the_share_of_the_first_part():
    schedule = methods.find("visionzip+trio")(retention=0.25, encoder_retention=0.375).schedule(576, 32)
    assert schedule.budgets[0] == 216 and sum(schedule.tokens_by_layer) == 32 * 144
    equal = methods.find("visionzip+trio")(retention=0.25, encoder_retention=0.25).schedule(576, 32)
    assert set(equal.budgets) == {144}


# --- names and options -----------------------------------------------------------------------------------------------


def test_a_combination_says_what_it_is():
    cls = methods.find("visionzip+trio")
    assert cls is methods.find("visionzip+trio") and cls.stage is Stage.BOTH and cls.name not in methods.names()
    assert cls.reference.arxiv == "2412.04467, 2602.04657" and cls.reference.remark == "our combination"
    assert cls.reference.trained == "optional"  # as VisionZip is
    assert cls.needs == methods.find("visionzip").needs | Trio.needs
    source = methods.find("divprune+fastv").reference
    assert "non-commercial" in source.remark and "NC" in source.licence
    assert methods.find("divprune+random").reference.remark == "control"


def test_an_option_goes_to_the_part_that_has_it():
    cls = methods.find("visionzip+trio")
    method = cls(retention=0.3, contextual_share=0.2, k_pos=2, saliency="autograd", positions="compact")
    assert method.encoder_part.contextual_share == 0.2 and method.encoder_part.positions == "compact"
    assert method.decoder_part.k_pos == 2 and not method.needs_layer_parts
    assert cls.field_of("contextual_share") == "contextual_share"
    assert cls.field_of("trio.contextual_share") is cls.field_of("power") is None
    assert methods.find("visionzip+trio-released")(retention=0.3).encoder_part.positions == "compact"
    for same in (copy.deepcopy(method), pickle.loads(pickle.dumps(method))):
        assert same == method and same is not method


@dataclass(frozen=True, kw_only=True)
class Before(Method):
    """Keeps the first tokens, and `seed` says from where."""

    seed: int = 0

    stage: ClassVar[Stage] = Stage.ENCODER
    reference: ClassVar[Reference] = Reference(title="none")

    def select(self, view: View) -> Selection:
        return Selection(tuple(torch.arange(self.seed, self.seed + p.budget) for p in view.pictures))


@dataclass(frozen=True, kw_only=True)
class Moody(Before):
    """Has an annotation that is a text, as under `from __future__ import annotations`."""

    mood: "Literal['calm', 'wild']" = "calm"


def test_an_option_annotated_by_a_text_is_checked_in_a_combination():
    with pytest.raises(OptionError, match="mood 'loud': choose calm or wild"):
        methods.find(f"{__name__}:Moody+random")(retention=0.5, mood="loud")


def test_an_option_of_both_parts_is_named_with_its_part():
    """The user's own class has no name, so its path is its name."""
    path = f"{__name__}:Before"
    cls, model, one = methods.find(f"{path}+random"), tiny.model("llava"), tiny.sample("llava")
    assert {"encoder_seed", "decoder_seed"} <= set(cls.option_names())
    options: dict[str, Any] = {"layers": (0, 2), "budgets": (9, 4)}
    _, trace = tiny.run(model, one, cls.name, **options, encoder_seed=3, decoder_seed=5)
    assert trace.stages[0].kept[0].tolist() == list(range(3, 12))
    kept, later = one_after_the_other(
        one, Before(layers=(0,), budgets=(9,), seed=3), methods.find("random")(layers=(2,), budgets=(4,), seed=5)
    )
    assert torch.equal(trace.stages[1].kept[0], later[2]) and torch.equal(trace.stages[0].kept[0], kept)
    with pytest.raises(
        OptionError, match=r"option 'seed' of .*: both parts have it; write encoder_seed or decoder_seed"
    ):
        cls.field_of("seed")
    with pytest.raises(OptionError, match=r"has no option 'colour'; it has: .*encoder_retention"):  # noqa: SIM117
        with prune(model, cls.name, retention=0.5, colour=1):
            pass
