"""TRIO's option `tokens="all"`: text tokens compete with the picture's."""

import pytest
import torch
from torch import Tensor

from tests.core import tiny
from tests.core.methods.test_methods import scores_and_features
from tests.core.models.test_families import check, listening
from trio_core import OptionError, Trio, prune
from trio_core.rules import equations

LAYERS = (1, 3, 4)


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


@tiny.every_family
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
    check(family, tiny.model(family), tiny.pair(family), method)


@pytest.mark.parametrize("rows", ["last", "shifted"])
@pytest.mark.parametrize("side", ["left", "right"])
@tiny.every_family
def test_what_must_stay_stays_and_the_trace_counts_all(family, side, rows):
    method = Trio(retention=0.5, layers=LAYERS, tokens="all", rows=rows, nms=False)
    model, samples = tiny.model(family), tiny.pair(family)
    with listening(model) as calls:
        trace = tiny.prefill(model, samples, method, side)
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
@tiny.by_hand
def test_words_are_scored_by_the_same_equations(family, rows, saliency, all_compete):
    method = Trio(retention=0.5, layers=LAYERS, tokens="all", rows=rows, saliency=saliency, k_pos=3, threshold=0.3)
    model, samples = tiny.model(family), tiny.pair(family)
    trace = tiny.prefill(model, samples, method)
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


def test_more_supervised_rows_than_text_after_the_picture_are_refused():
    model, one = tiny.model("llava"), tiny.sample("llava")
    with (
        torch.no_grad(),
        prune(model, Trio(retention=0.5, tokens="all", k_pos=10)),
        pytest.raises(OptionError, match="k_pos 10 with rows 'last' reaches past the 9 text tokens after a picture"),
    ):
        model(**one)
