"""TRIO's option `tokens="all"`: text tokens compete with the picture's."""

import pytest
import torch
from torch import Tensor

from tests.core import tiny
from tests.core.methods.test_methods import scores_and_features
from tests.core.models.test_families import check
from trio_core import Trio
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


# --- little text after the picture -----------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", ["visual", "all"])
@pytest.mark.parametrize("method", ["trio", "trio-printed", "trio-released", "lookahead"])
def test_a_question_before_the_picture_supervises_fewer_rows_and_says_so(method, tokens):
    if method == "lookahead" and tokens == "all":
        pytest.skip("text does not compete in lookahead")
    model, one = tiny.model("llava"), tiny.sample("llava", before=10, after=3)
    left = 2 if method == "trio-released" else 3
    options = {"retention": 0.5, "layers": LAYERS, **({"tokens": tokens} if tokens == "all" else {})}
    _, trace = tiny.run(model, one, method, **options)
    assert any(f"only {left} supervised" in note for note in trace.notes)
    _, exact = tiny.run(model, one, method, **options, k_pos=left)
    assert not any("supervised" in note for note in exact.notes)
    if tokens == "visual":  # otherwise k_pos also says which words compete
        for stage, same in zip(trace.stages, exact.stages, strict=True):
            assert torch.equal(stage.kept[0], same.kept[0])
            assert torch.allclose(stage.scores[0], same.scores[0], equal_nan=True)


@pytest.mark.parametrize("saliency", ["tail", "autograd"])
def test_neighbours_in_a_batch_do_not_change_how_many_rows_are_supervised(saliency):
    model = tiny.model("llava")
    samples = [tiny.sample("llava", before=9, after=2, seed=1), tiny.sample("llava", before=2, after=9)]
    method = Trio(retention=0.5, layers=LAYERS, saliency=saliency)
    together = tiny.prefill(model, samples, method)
    for b, one in enumerate(samples):
        alone = tiny.prefill(model, [one], method)
        for stage, own in zip(together.stages, alone.stages, strict=True):
            assert torch.equal(stage.kept[b], own.kept[0])
    assert sum("supervised" in note for note in together.notes) == 1
