"""A new family is one class: ViP-LLaVA becomes a family, and what holds for all families holds for it."""

from typing import Any, ClassVar
from unittest.mock import patch

from tests.core import tiny
from tests.core.models.test_families import EARLY, METHOD, check
from trio_core import prune
from trio_core.engine.checking import self_check
from trio_core.models import adapter_for, toy
from trio_core.models.adapter import Adapter, adapters, families


def test_a_class_with_its_names_and_a_toy_is_a_family():
    with patch.dict(adapters), patch.dict(families):

        class VipLlava(Adapter):
            """LLaVA-1.5 whose projector reads several layers of the tower. All defaults fit."""

            family: ClassVar[str] = "ViP-LLaVA"
            classes: ClassVar[tuple[str, ...]] = ("VipLlavaForConditionalGeneration",)
            toy_vision: ClassVar[dict[str, Any]] = toy.CLIP
            toy_options: ClassVar[dict[str, Any]] = {"image_token_index": toy.IMAGE, "vision_feature_layers": [-1, -2]}

        model = families["ViP-LLaVA"].toy("sdpa", seed=0)
        assert type(adapter_for(model)) is VipLlava and adapter_for(model).known
        assert self_check(model, prune).faults == ()
        samples = [VipLlava.toy_sample("small", 3, 9, 1), tiny.without_videos(VipLlava.toy_sample("large", 3, 12, 0))]
        for method in (METHOD, EARLY):
            check("vip_llava", model, samples, method)
