"""The training of the pocket model: its losses agree with the plain model's, and a stopped run continues exactly."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from pocket_training.curriculum import Curriculum
from pocket_training.losses import answer_loss
from pocket_training.packing import blindfold, found_at, question_ids
from pocket_training.pictures import album, patch_labels, visible
from pocket_training.recipe import Progress, Recipe
from pocket_training.training import STATE, Training, _sorted_parameters
from trio_profile.errors import StudyError
from trio_profile.inputs import workload
from trio_profile.inputs.pocket.checkpoint import VISUAL_TOKENS, VOCABULARY, processor, untrained
from trio_profile.inputs.pocket.exam import TRAINED_FROM
from trio_profile.inputs.pocket.grammar import ask
from trio_profile.inputs.pocket.scenes import PROPERTIES, VALUES, render, scene

SMALL = Recipe(steps=(2, 4), pictures=12, batch=(2, 3), questions=2)


def test_pictures_are_prepared_as_the_processor_does():
    pictures = album(3)
    seen = [workload.ask(processor(), [render(shown)], "which digit ?")["pixel_values"] for shown in pictures.scenes]
    assert torch.allclose(pictures.prepared([0, 1, 2]), torch.cat(seen), atol=1e-6)


def test_no_picture_of_the_exam_is_trained_on():
    assert album(3).scenes == tuple(scene(TRAINED_FROM + number) for number in range(3))
    assert TRAINED_FROM > 10_000  # the most questions that a study may ask


def test_packed_questions_are_answered_as_if_each_were_alone():
    model, shown = untrained(0, layers=3).double().eval(), scene(5)
    asked = [ask(shown, 2, np.random.default_rng(i)) for i in range(4)]
    prompts = [workload.ask(processor(), [render(shown)], question.text) for question in asked]
    with torch.no_grad():
        pixels = torch.cat([prompt["pixel_values"] for prompt in prompts]).double()
        whole = model(input_ids=torch.cat([prompt["input_ids"] for prompt in prompts]), pixel_values=pixels).logits
        logits = whole[:, -1]
        features = model.model.vision_tower(pixels[:1]).last_hidden_state[:, 1:]
        texts = torch.tensor([[question_ids(question) for question in asked]])
        ends = []
        for prompt, text in zip(prompts, texts[0], strict=True):
            ids = torch.cat([prompt["input_ids"], text[None, -1:]], dim=1)
            ends.append(model(input_ids=ids, pixel_values=pixels[:1], logits_to_keep=1).logits[0, -1])
        model.model.language_model.set_attn_implementation("packed")
        found = torch.tensor([[[VOCABULARY[word] for word in question.found] for question in asked]])
        places = torch.arange(VISUAL_TOKENS)[None]
        loss, right = answer_loss(model, features, places, texts, found, ending=True)
    truth = torch.tensor([VOCABULARY[question.answer] for question in asked])
    end = torch.full_like(truth, VOCABULARY["</s>"])
    # "by *digit* to the circle which *colour* ? answer in one word . ASSISTANT *:*": all alike; the end counts a tenth.
    supervised = [(whole[:, -14], found[0, :, 0]), (whole[:, -9], found[0, :, 1]), (logits, truth)]
    expected = sum(cross_entropy(said, known) for said, known in supervised) / 3
    expected = expected + 0.1 * cross_entropy(torch.stack(ends), end)
    assert loss.item() == pytest.approx(float(expected), rel=1e-4)
    assert right[-1].item() == pytest.approx((logits.argmax(-1) == truth).double().mean().item())


def test_a_blindfold_hides_the_picture_in_the_first_layers_only():
    model = untrained(0, layers=3).eval()
    model.model.language_model.set_attn_implementation("packed")
    asked = ask(scene(5), 1, np.random.default_rng(0))
    texts, found = torch.tensor([[question_ids(asked)]]), torch.tensor([[[VOCABULARY[asked.answer]]]])
    places = torch.arange(20)[None]
    one, other = torch.randn(2, 1, 20, 96, generator=torch.Generator().manual_seed(0))
    losses = []
    for layers in (0, 2, 3):
        blindfold(model, layers)
        with torch.no_grad():
            losses.append([answer_loss(model, f, places, texts, found, ending=True)[0].item() for f in (one, other)])
    seen, late, never = losses
    assert seen[0] != seen[1] and late[0] != late[1] and seen != late
    assert never[0] == never[1]  # nothing of the picture is left


def test_each_hop_has_its_own_share_of_the_layers():
    model = untrained(0, layers=6)
    words = 18  # "at the red square by digit", "to the circle by shape", "to the blue which digit", "? answer"

    def first_seen() -> list[int]:
        gates = torch.stack([layer.self_attn.gate[:words] for layer in model.model.language_model.layers])
        return (gates == 0).cumsum(dim=0).eq(0).sum(dim=0).tolist()

    blindfold(model, 1, hops=3)
    assert first_seen() == [1] * 6 + [3] * 5 + [5] * 7
    blindfold(model, 1, hops=3, late=True)
    assert first_seen() == [1] * 6 + [3] * 5 + [6] * 5 + [5] * 2  # the end of the prompt looks for the last
    blindfold(model, 0, hops=2, late=True)
    assert first_seen() == [0] * 6 + [6] * 5 + [0] * 7
    blindfold(model, 1, hops=1)
    assert first_seen() == [1] * words


def test_the_supervised_places_name_the_property_to_look_for():
    for hops in (1, 2, 3):
        asked = ask(scene(9), hops, np.random.default_rng(hops))
        words = {number: word for word, number in VOCABULARY.items()}
        for ending in (True, False):
            ids = question_ids(asked, ending=ending)
            named = [words[ids[at]] for at in found_at(hops)]
            assert [thing[of] for thing, of in zip(asked.route, named, strict=True)] == list(asked.found)


def test_labels_name_the_thing_of_each_patch():
    shown = scene(3)
    labels = patch_labels([shown])[0]
    for thing in shown.things:
        for patch in thing.patches():
            assert [VALUES[of][labels[patch, k] - 1] for k, of in enumerate(PROPERTIES)] == [
                thing[of] for of in PROPERTIES
            ]
    assert (labels[:, 0] > 0).sum() == 4 * len(shown.things)


def test_the_visible_tokens_contain_no_other_things():
    shown = scene(3)
    things, tokens = visible(shown, 5, 0.75, 7, np.random.default_rng(0))
    others = {patch for thing in shown.things if thing not in things for patch in thing.patches()}
    mine = {patch for thing in things for patch in thing.patches()}
    assert len(things) == 5 and len(tokens) == 15 + 7 and tokens == sorted(set(tokens))
    assert not others & set(tokens)
    assert len(mine & set(tokens)) == 15


def test_the_curriculum_asks_for_more_as_more_is_found():
    level = Curriculum()
    assert (level.hops, level.things, level.ground) == (1, 3, 2)
    for _ in range(3):
        level.grow(0.0)
    assert level.things == 4
    for _ in range(100):
        level.heard(1, 1.0)
    for _ in range(9):
        level.grow(0.0)
    assert (level.hops, level.things) == (2, 8)  # no further before two hops are found among them
    for _ in range(100):
        level.heard(2, 1.0)
    assert level.hops == 3
    late = Curriculum()
    for _ in range(40):
        late.grow(0.7)
    assert late.things == 30  # time wants it


def test_inner_matrices_are_separated_from_all_other_parameters():
    model = untrained(0, layers=2)
    matrices, others = _sorted_parameters([model.model.language_model, model.lm_head])
    assert len(matrices) == 2 * 7
    assert {tuple(p.shape) for p in others} == {(len(VOCABULARY), 128), (128,)}


@pytest.mark.slow
def test_a_stopped_run_continues_exactly_and_leaves_a_stock_model(tmp_path: Path):
    seen: list[Progress] = []

    def stop(now: Progress) -> None:
        seen.append(now)
        if len(seen) == 4:
            raise KeyboardInterrupt

    whole = Training(SMALL).run(tmp_path / "whole", lambda _: None)
    first = Training(SMALL)
    with pytest.raises(KeyboardInterrupt):
        first.run(tmp_path / "parts", stop)
    first.save(tmp_path / "parts" / STATE)
    resumed = Training(SMALL).run(tmp_path / "parts", seen.append)
    assert [(now.phase, now.step) for now in seen[:5]] == [
        ("see", 1),
        ("see", 2),
        ("answer", 1),
        ("answer", 2),
        ("answer", 3),
    ]
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
    assert whole.model.language_model.config._attn_implementation == "sdpa"
    with pytest.raises(StudyError, match="another recipe"):
        Training(Recipe(seed=9)).run(tmp_path / "parts", lambda _: None)
