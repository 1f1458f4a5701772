"""`prune` on the real classes at toy size: a pruned model is the model on a shorter sequence."""

from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.core import tiny
from tests.core.models.test_families import CLOSE, LAYERS, METHOD, apart, check, listening, shortened, stages_of
from tests.core.tiny import NUM_LAYERS
from trio_core import Schedule, Trio, TrioError, prune


def check_second_turn(model: Any, family: str, dense: PreTrainedModel) -> None:
    """Several tokens at once on a pruned cache, one sample's turn a word shorter and padded, then one token more.

    dense: the model whose layers are the oracle.
    """
    samples = tiny.unequal_spans(family, before=0)
    words = torch.randint(1, tiny.WORDS, (2, 4))
    mask = tiny.batch(samples)["attention_mask"]
    mask = torch.cat([mask, torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]])], dim=1)
    positions = mask.cumsum(dim=1)[:, -4:] - 1
    with torch.no_grad(), prune(model, METHOD) as trace, listening(model) as calls:
        cache = model(**tiny.batch(samples), use_cache=True)[tiny.CACHE]
        if family in tiny.MULTI_AXIS:
            positions = (positions + model.model.rope_deltas).expand(3, -1, -1)
        for turn, known in ((slice(0, 3), -1), (slice(3, 4), None)):
            model(
                input_ids=words[:, turn],
                attention_mask=mask[:, :known],
                position_ids=positions[..., turn],
                **{tiny.CACHE: cache},
            )
    for b, one in enumerate(samples):
        fed = words[b, 1 - b :].tolist()
        left = stages_of(trace, one, b, one["input_ids"].shape[1] + len(fed))
        expected, _ = shortened(dense, one, fed, left)
        for layer, wanted in enumerate(expected):
            seen = torch.cat([calls[1][layer][2][b, 1 - b :], calls[2][layer][2][b]])
            assert apart(seen, wanted[-len(fed) :]) < CLOSE, f"sample {b}, layer {layer + 1}"


COMPACT = Trio(retention=0.5, layers=LAYERS, positions="compact")
BY_KERNEL = product(tiny.CACHED, tiny.ATTENTION)
every_kernel = pytest.mark.parametrize(("family", "attention"), tiny.fast_first(BY_KERNEL, ("llava", "sdpa")))


def batches(family: str) -> dict[str, list[dict[str, Tensor]]]:
    """Samples that stand side by side, by what is special about them."""
    small, large = tiny.sample(family, "small", seed=1), tiny.sample(family, "large")
    return {
        "one sample": [large],
        "left padding": [tiny.sample(family, after=7), tiny.sample(family, before=9, after=12, seed=1)],
        "unequal spans with padding": [small, large, tiny.sample(family, "small", 5)],
        "unequal spans without padding": tiny.unequal_spans(family, before=3),
        "unequal spans that begin the prompt": tiny.unequal_spans(family, before=0),
        # Padding cannot fill up what the larger picture loses: dropped tokens must.
        "a large picture beside a long text": [large, tiny.sample(family, "small", after=30, seed=1)],
    }


@every_kernel
@pytest.mark.parametrize("name", batches("llava"))
def test_hidden_states_are_those_of_a_sequence_that_was_physically_built_shorter(family, attention, name):
    model, samples = tiny.model(family, attention), batches(family)[name]
    check(family, model, samples)
    if family not in tiny.MULTI_AXIS and name in ("one sample", "unequal spans with padding"):
        check(family, model, samples, COMPACT)


@every_kernel
def test_a_padded_second_turn(family, attention):
    model = tiny.model(family, attention)
    check_second_turn(model, family, model)


def test_compact_positions_without_position_ids():
    model, one = tiny.model("llava"), tiny.sample("llava")
    tokens = torch.randint(1, tiny.WORDS, (3,))
    with torch.no_grad(), prune(model, COMPACT) as trace, listening(model) as calls:
        cache = model(**one)[tiny.CACHE]
        for token in tokens:
            model(input_ids=token.view(1, 1), **{tiny.CACHE: cache})
    left = stages_of(trace, one, length=one["input_ids"].shape[1] + len(tokens))
    expected, _ = shortened(model, one, tokens.tolist(), left, compact=True)
    for step, layer in product(range(3), range(NUM_LAYERS)):
        assert apart(calls[1 + step][layer][2][0, 0], expected[layer][step - 3]) < CLOSE


# --- generate --------------------------------------------------------------------------------------------------------


def test_the_cache_is_as_long_as_the_schedules_longest_sample():
    model, samples = tiny.model("llava"), [tiny.sample("llava", "small", seed=1), tiny.sample("llava", "large")]
    text = [one["input_ids"].shape[1] - len(tiny.visual_rows(one)) for one in samples]
    with prune(model, METHOD) as trace:
        cache = tiny.generate(model, tiny.batch(samples), 3)[tiny.CACHE]
    by_sample = zip(*(schedule.tokens_by_layer for schedule in trace.schedules), strict=True)
    longest = [max(t + v for t, v in zip(text, layer, strict=True)) for layer in by_sample]
    assert [layer.keys.shape[-2] for layer in cache.layers] == [length + 2 for length in longest]
    for schedule in trace.schedules:
        assert sum(schedule.tokens_by_layer) == round(NUM_LAYERS * 0.5 * schedule.visual_tokens)


# --- the trace -------------------------------------------------------------------------------------------------------


def test_the_trace_speaks_of_the_pictures_own_tokens():
    model, samples = tiny.model("llava"), [tiny.sample("llava", "small"), tiny.sample("llava", "large", seed=1)]
    _, trace = tiny.run(model, tiny.batch(samples), Trio(retention=0.5, layers=LAYERS))
    assert [stage.layer for stage in trace.stages] == list(LAYERS)
    assert [schedule.visual_tokens for schedule in trace.schedules] == [16, 32]
    before = [set(range(16)), set(range(32))]
    for s, stage in enumerate(trace.stages):
        assert stage.tokens_before == max(len(left) for left in before)
        assert stage.tokens_after == max(schedule.budgets[s] for schedule in trace.schedules)
        for b, kept in enumerate(stage.kept):
            assert set(kept.tolist()) <= before[b]
            scored = (~stage.scores[b].isnan()).nonzero().squeeze(1).tolist()
            assert len(stage.scores[b]) == trace.schedules[b].visual_tokens
            assert set(scored) == before[b]
            before[b] = set(kept.tolist())
    due = sum(sum(schedule.tokens_by_layer) for schedule in trace.schedules)
    assert trace.realised_retention == due / (NUM_LAYERS * (16 + 32))


def test_the_trace_is_of_the_latest_prefill_and_a_decode_step_leaves_it():
    model = tiny.model("llava")
    with torch.no_grad(), prune(model, Trio(retention=0.5, layers=LAYERS)) as trace:
        with pytest.raises(TrioError, match="no prefill has run"):
            _ = trace.realised_retention
        tiny.generate(model, tiny.sample("llava", "large"), 3)
        assert trace.schedules[0].visual_tokens == 32
        tiny.generate(model, tiny.sample("llava", "small"), 3)
        assert trace.schedules[0].visual_tokens == 16
        assert len(trace.stages) == len(LAYERS)


@dataclass(frozen=True, kw_only=True)
class OwnLayers(Trio):
    """A small picture is pruned after layer 3, a large one after layer 1."""

    name: ClassVar[str] = ""

    def schedule(self, visual_tokens: int, num_layers: int) -> Schedule:
        return Schedule((3 if visual_tokens < 20 else 1,), (visual_tokens // 2,), visual_tokens, num_layers)


def test_samples_of_a_batch_may_have_stages_after_different_layers():
    model, samples, method = tiny.model("llava"), tiny.unequal_spans("llava"), OwnLayers(retention=1.0)
    sizes = [len(tiny.visual_rows(sample)) for sample in samples]
    assert sizes[0] < 20 <= sizes[1]
    with torch.inference_mode(), prune(model, method) as trace:
        model(**tiny.batch(samples), use_cache=False)
        together, stages = trace.schedules, [stage.kept for stage in trace.stages]
        alone = []
        for sample in samples:
            model(**sample, use_cache=False)
            alone.append((trace.schedules[0], trace.stages[0].kept[0]))
    assert [schedule.layers for schedule, _ in alone] == [(3,), (1,)]
    assert [schedule.tokens_by_layer for schedule in together] == [own.tokens_by_layer for own, _ in alone]
    assert [kept.tolist() for kept in stages[-1]] == [kept.tolist() for _, kept in alone]
