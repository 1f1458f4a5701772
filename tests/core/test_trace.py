"""What a trace says of merged tokens: on the picture's own numbers, and only where the method knows it."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from tests.core import tiny
from tests.core.methods.test_methods import FOR_PICTURES
from trio_core import methods
from trio_core.methods.method import Method
from trio_core.methods.view import Selection, View
from trio_core.trace import Trace

KNOWN = {"tome", "downsample", "visionzip", "prunevid", "pact"}
"""The methods that say into which token each merged token went."""
UNKNOWN = {"prumerge", "sparsevlm"}
"""The methods that merge and do not say it: in prumerge a token goes into several."""


def trace_of(method: Method, family: str = "llava", size: tiny.Size = "small") -> Trace:
    return tiny.prefill(tiny.model(family), [tiny.sample(family, size)], method)


@dataclass(frozen=True, kw_only=True)
class Pairs(Method):
    """Keeps the last tokens of the current ones; each dropped token at an even index went into the last one."""

    name: ClassVar[str] = ""

    def select(self, view: View) -> Selection:
        kept, features, merged = [], [], []
        for sample in view.samples:
            count = len(sample.rows)
            stays = torch.arange(count - sample.budget, count)
            kept.append(stays)
            features.append(sample.features[-sample.budget :])
            into = torch.where(torch.arange(count) % 2 == 0, count - 1, -1)
            merged.append(into.index_copy(0, stays, stays))
        return Selection(tuple(kept), features=tuple(features), merged=lambda: tuple(merged))


def test_a_trace_by_hand():
    """Of 16 tokens 4 stay, 12 to 15; of these 2 stay, 14 and 15. Indices are even or odd among the current tokens."""
    first, second = trace_of(Pairs(layers=(1, 3), budgets=(4, 2))).stages
    assert first.merges and second.merges
    assert first.merged_into[0].tolist() == [15, -1] * 6 + [12, 13, 14, 15]
    assert second.merged_into[0].tolist() == [-1] * 12 + [15, -1, 14, 15]


@pytest.mark.parametrize("family", ["llava", "llava_next"])
@pytest.mark.parametrize("name", sorted(KNOWN))
def test_a_kept_token_is_part_of_itself_and_others_go_into_kept_tokens(name, family):
    for retention in (0.2, 0.5):
        for stage in trace_of(methods.find(name)(retention=retention), family, "large").stages:
            if not stage.merges:
                assert stage.merged_into is None
                continue
            kept, (into,) = stage.kept[0], stage.merged_into
            assert torch.equal(into[kept], kept)
            assert set(into.tolist()) <= {-1, *kept.tolist()}
            # visionzip merges nothing where a crop keeps three tokens.
            assert (into >= 0).sum() > len(kept) or retention == 0.2


def test_the_methods_that_merge_are_these():
    merging = {}
    for name in FOR_PICTURES:
        stages = trace_of(methods.find(name)(retention=0.4)).stages
        if any(stage.merges for stage in stages):
            merging[name] = all(stage.merged_into is not None for stage in stages if stage.merges)
    assert {name for name, known in merging.items() if known} == KNOWN
    assert {name for name, known in merging.items() if not known} == UNKNOWN
