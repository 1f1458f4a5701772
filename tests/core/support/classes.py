"""Model classes that no family covers, and decoders of which no token can be dropped."""

import copy
from collections.abc import Callable
from functools import partial

import torch
from transformers import PreTrainedModel

from tests.core import tiny, unknown
from tests.core.engine.test_hidden_keys import check
from tests.core.support.rows import Group
from trio_core import prune
from trio_core.engine.checking import LEAST, _Trial
from trio_core.methods.divprune import DivPrune
from trio_core.methods.random import Random

GROUP = Group("Classes without a family")


def tried(make: Callable[[], PreTrainedModel]) -> None:
    """A prompt with a random picture, as if dropped tokens were hidden: before the decoder and inside it."""
    model = make()
    dense = copy.deepcopy(model)
    dense.set_attn_implementation({"text_config": "eager"})
    trial = _Trial(model, prune)
    assert trial.picture is not None and trial.picture[1] >= LEAST
    ids = torch.tensor([[3, 1, 4, *[tiny.IMAGE] * trial.picture[1], *range(20, 30)]])
    for method in (Random(retention=0.5), DivPrune(retention=0.5)):
        check(method, trial.inputs(ids), model, dense, compact=False)


for _name, _make in unknown.PRUNED.items():
    GROUP.works(f"{_name}, after its trial", partial(tried, _make))


def opened(make: Callable[[], PreTrainedModel]) -> None:
    with prune(make(), "random", retention=0.5):
        pass


for _name, _make in unknown.REFUSED.items():
    GROUP.refused(_name, partial(opened, _make))
