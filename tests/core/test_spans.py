"""Named regions: heard in order by whoever listens, and by nobody else."""

import pytest
import torch

from tests.core import tiny
from trio_core import Trio, prune
from trio_core.spans import ORDER_CHECK, listening, span


class Ear(list[tuple[str, bool]]):
    def __call__(self, name: str, entering: bool) -> None:
        self.append((name, entering))


def test_a_listener_leaves_with_an_exception_and_the_span_is_closed():
    ear = Ear()
    with pytest.raises(RuntimeError, match="inside"), listening(ear), span("x"):
        raise RuntimeError("inside")
    assert ear == [("x", True), ("x", False)]
    with span("after"):
        pass
    assert len(ear) == 2


def test_trio_is_heard_stage_by_stage():
    ear = Ear()
    model, one = tiny.model("llava"), tiny.sample("llava")
    with torch.no_grad(), prune(model, Trio(retention=0.5, layers=(1, 3))), listening(ear):
        model(**one)
    parts = [
        (name, entering) for name in ("proxy_forward", "proxy_loss", "backward", "nms") for entering in (True, False)
    ]
    after = [(name, entering) for name in (ORDER_CHECK, "compaction") for entering in (True, False)]
    stage = [("selection", True), *parts, ("selection", False), *after]
    assert ear == stage * 2
