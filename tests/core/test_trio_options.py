"""TRIO's two options: text tokens that compete with the picture's, and budgets that follow the labels' confidence."""

import copy

import pytest
import torch
from torch import Tensor

from tests.core import reference, tiny
from tests.core.test_families import check, listening
from tests.core.test_methods import scores_and_features
from trio_core import OptionError, Trio, UnsupportedInput, equations, prune
from trio_core.pruning import Trace
from trio_core.schedule import Schedule

LAYERS = (1, 3, 4)


def unequal(family: str) -> list[dict[str, Tensor]]:
    """A sample that a batch pads at its left, and a larger one."""
    return [tiny.sample(family, "small", seed=1), tiny.sample(family, after=12)]


def traced(model, inputs: dict[str, Tensor], method: Trio) -> Trace:
    with torch.inference_mode(), prune(model, method) as trace:
        model(**inputs, use_cache=False)
    return trace


# --- tokens="all" ----------------------------------------------------------------------------------------------------


def competitors(one: dict[str, Tensor], method: Trio) -> Tensor:
    """Places in an unpadded sample: the picture, and the words that are neither first, supervised nor last."""
    ids = one["input_ids"][0]
    free = range(1, len(ids) - method.k_pos - (method.rows == "shifted"))
    return torch.tensor([p for p in range(len(ids)) if p in free or ids[p] in (tiny.IMAGE, tiny.VIDEO)])


@pytest.fixture
def all_compete(monkeypatch):
    """Called with a method: the oracles that ask for a sample's visual rows are then given all that compete."""
    return lambda method: monkeypatch.setattr(tiny, "visual_rows", lambda one: competitors(one, method))


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_with_text_among_them_it_is_its_layers_on_a_shorter_sequence(family, all_compete):
    """Prefill and decode of a padded batch, by family; shifted rows in every other, renumbered where it is known."""
    method = Trio(
        retention=0.5,
        layers=LAYERS,
        tokens="all",
        rows="shifted" if len(family) % 2 else "last",
        positions="original" if family.startswith("qwen") else "compact",
    )
    all_compete(method)
    check(family, tiny.model(family), unequal(family), method)


@pytest.mark.parametrize("rows", ["last", "shifted"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_what_must_stay_stays_and_the_trace_counts_all(family, side, rows):
    method = Trio(retention=0.5, layers=LAYERS, tokens="all", rows=rows, nms=False)
    model, samples = tiny.model(family), unequal(family)
    with listening(model) as calls:
        trace = traced(model, tiny.batch(samples, side), method)
    kept_text = 0
    for b, one in enumerate(samples):
        rivals, words = (
            competitors(one, method),
            ~torch.isin(one["input_ids"][0], torch.tensor([tiny.IMAGE, tiny.VIDEO])),
        )
        schedule = trace.schedules[b]
        assert schedule.visual_tokens == len(rivals)
        assert sum(schedule.tokens_by_layer) == pytest.approx(6 * 0.5 * len(rivals), abs=1.5)
        for stage, budget in zip(trace.stages, schedule.budgets, strict=True):
            assert len(stage.kept[b]) == budget
            assert stage.scores[b].shape == (len(rivals),)
        assert not set(trace.stages[-1].kept[b].tolist()) - set(trace.stages[0].kept[b].tolist())
        kept_text += int(words[rivals[trace.stages[-1].kept[b]]].sum())
    assert trace.realised_retention == pytest.approx(0.5, abs=0.02)
    # Some words stay and some go: they do compete.
    assert 0 < kept_text < sum(len(competitors(one, method)) - len(tiny.visual_rows(one)) for one in samples)
    last = calls[0][-1][2].shape[1]
    assert last == max(
        one["input_ids"].shape[1] - len(competitors(one, method)) + schedule.budgets[-1]
        for one, schedule in zip(samples, trace.schedules, strict=True)
    )


@pytest.mark.parametrize("saliency", ["tail", "autograd"])
@pytest.mark.parametrize("rows", ["last", "shifted"])
@pytest.mark.parametrize("family", tiny.BY_HAND)
def test_words_are_scored_by_the_same_equations(family, rows, saliency, all_compete):
    method = Trio(retention=0.5, layers=LAYERS, tokens="all", rows=rows, saliency=saliency, k_pos=3, threshold=0.3)
    model, samples = tiny.model(family), unequal(family)
    trace = traced(model, tiny.batch(samples), method)
    all_compete(method)
    for b, one in enumerate(samples):
        rivals = competitors(one, method)
        always = torch.arange(one["input_ids"].shape[1])
        always = always[~torch.isin(always, rivals)]
        kept, earlier = torch.arange(len(rivals)), {}
        for stage, budget in zip(trace.stages, trace.schedules[b].budgets, strict=True):
            scores, features = scores_and_features(model, one, method, stage.layer, earlier)
            assert torch.allclose(stage.scores[b][kept].float() * len(samples), scores, rtol=1e-3, atol=1e-7)
            kept = kept[equations.nms_select(scores, features, budget, method.threshold)]
            assert torch.equal(stage.kept[b], kept)
            earlier[stage.layer] = torch.cat([always, rivals[kept]]).sort().values


def test_a_prompt_of_words_alone_is_refused_all_the_same():
    model, one = tiny.model("llava"), tiny.sample("llava")
    words = {"input_ids": torch.ones(1, 30, dtype=torch.long)}
    with (
        torch.no_grad(),
        prune(model, Trio(retention=0.5, tokens="all")),
        pytest.raises(UnsupportedInput, match="sample 0 of the batch has no visual tokens"),
    ):
        model(**words)
    with (
        torch.no_grad(),
        prune(model, Trio(retention=0.5, tokens="all", k_pos=10)),
        pytest.raises(OptionError, match="k_pos 10 with rows 'last' reaches past the 9 text tokens after a picture"),
    ):
        model(**one)


# --- confidence ------------------------------------------------------------------------------------------------------

SURE = Trio(retention=0.5, layers=LAYERS, confidence=True)


def confidence(model, one: dict[str, Tensor]) -> float:
    """The mean probability of the pseudo-labels at layer 2's supervised rows, by the decoder written out."""
    decoder, outputs = reference.Decoder(model), reference.run(model, one, {}).prefill
    return decoder.logits(outputs[1])[-SURE.k_pos :].softmax(dim=-1).amax(dim=-1).mean().item()


def with_head(family: str, scale: float):
    """The family's toy whose logits are scaled: 0 knows nothing, and a large scale is sure."""
    model = copy.deepcopy(tiny.model(family))
    with torch.no_grad():
        model.get_submodule("lm_head").weight.mul_(scale)
    return model


def plain(one: dict[str, Tensor]) -> Schedule:
    return Trio(retention=SURE.retention, layers=LAYERS).schedule(len(tiny.visual_rows(one)), 6)


@pytest.mark.parametrize("scale", [0.0, 3.0, 5.0])
@pytest.mark.parametrize("family", tiny.BY_HAND)
def test_an_unsure_label_keeps_more_early_and_less_later(family, scale):
    """By 2 − c at the first stage, with the rest so that the average stays; each sample of a batch by its own."""
    model, samples = with_head(family, scale), unequal(family)
    with listening(model) as calls:
        trace = traced(model, tiny.batch(samples), SURE)
    for b, (one, schedule) in enumerate(zip(samples, trace.schedules, strict=True)):
        before, sure = plain(one), confidence(model, one)
        assert 0 < sure < 1
        assert schedule == before.shifted(0, round((2 - sure) * before.budgets[0]))
        if len(tiny.visual_rows(one)) > 6:  # of Qwen's six tokens four and two were kept: nothing to trade
            assert schedule.budgets[0] > before.budgets[0] and schedule.budgets[-1] < before.budgets[-1]
        assert abs(sum(schedule.tokens_by_layer) - sum(before.tokens_by_layer)) <= 1
        assert tuple(len(stage.kept[b]) for stage in trace.stages) == schedule.budgets
        alone = traced(model, one, SURE)
        assert alone.schedules == (schedule,)
        assert alone.realised_retention == schedule.layer_average
        assert torch.equal(alone.stages[-1].kept[0], trace.stages[-1].kept[b])
    assert [stage.tokens_after for stage in trace.stages] == [
        max(schedule.budgets[i] for schedule in trace.schedules) for i in range(3)
    ]
    text = [one["input_ids"].shape[1] - len(tiny.visual_rows(one)) for one in samples]
    widths = [max(t + s.tokens_by_layer[i] for t, s in zip(text, trace.schedules, strict=True)) for i in range(6)]
    assert [output.shape[1] for _, _, output in calls[0]] == widths
    total = sum(sum(schedule.tokens_by_layer) for schedule in trace.schedules)
    assert trace.realised_retention == total / (6 * sum(schedule.visual_tokens for schedule in trace.schedules))


@pytest.mark.parametrize("family", tiny.BY_HAND)
def test_a_sure_label_leaves_the_schedule_alone(family):
    model, samples = with_head(family, 1e4), unequal(family)
    trace = traced(model, tiny.batch(samples), SURE)
    usual = traced(model, tiny.batch(samples), Trio(retention=0.5, layers=LAYERS))
    assert trace.schedules == usual.schedules == tuple(plain(one) for one in samples)
    for ours, theirs in zip(trace.stages, usual.stages, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours.kept, theirs.kept, strict=True))


def test_a_stage_that_drops_nothing_plans_nothing():
    """At 0.93 the first of three stages keeps all 32 tokens; it is the second one that trades with the third."""
    model, one = with_head("llava", 0.3), tiny.sample("llava")
    method = Trio(retention=0.93, layers=LAYERS, confidence=True)
    before = method.schedule(32, 6)
    assert before.budgets[0] == 32 > before.budgets[1]
    small = tiny.sample("llava", "small")
    for inputs, place in ((one, 0), (tiny.batch([small, one]), 1)):
        (*_, schedule) = trace = traced(model, inputs, method).schedules
        assert trace[place] is schedule
        assert schedule.budgets[0] == 32 and schedule.budgets[1] > before.budgets[1]


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_it_generates_from_what_each_stage_left(family):
    check(family, tiny.model(family), unequal(family), SURE)


@pytest.mark.parametrize("options", [{"saliency": "autograd", "retention": 0.5}, {"budgets": (5,), "layers": (1,)}])
def test_confidence_without_a_tail_or_an_average_is_refused(options):
    with pytest.raises(OptionError, match="it needs retention, and saliency 'tail'") as caught:
        Trio(confidence=True, **options)
    assert "\n" not in str(caught.value)


def test_an_unknown_choice_of_tokens_is_refused(request):
    if request.config.getoption("--shapes"):
        pytest.skip("the shape check refuses the type before we see the value")
    with pytest.raises(OptionError, match="tokens 'text': choose visual or all"):
        Trio(retention=0.5, tokens="text")
