"""The training of the pocket model: its losses agree with the plain model's, and a stopped run continues exactly."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from pocket_training.checkpoint import TRAINED_FROM, VISUAL_TOKENS, VOCABULARY, processor, untrained
from pocket_training.losses import answer_loss
from pocket_training.packing import question_ids
from pocket_training.pictures import album
from pocket_training.recipe import Progress, Recipe
from pocket_training.training import STATE, Training
from trio_profile.errors import StudyError
from trio_profile.inputs import workload
from trio_profile.inputs.pocket.grammar import ask
from trio_profile.inputs.pocket.scenes import render, scene

SMALL = Recipe(steps=(2, 4), pictures=12, batch=(2, 3), questions=2)


def test_pictures_are_prepared_as_the_processor_does():
    pictures = album(3)
    seen = [workload.ask(processor(), [render(shown)], "which digit ?")["pixel_values"] for shown in pictures.scenes]
    assert torch.allclose(pictures.prepared([0, 1, 2]), torch.cat(seen), atol=1e-6)


def test_no_picture_of_the_exam_is_trained_on():
    assert album(3).scenes == tuple(scene(TRAINED_FROM + number) for number in range(3))
    assert TRAINED_FROM > 10_000  # the most questions that a study may ask


@pytest.mark.slow
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
        found = torch.tensor([[[VOCABULARY[word] for word in question.values] for question in asked]])
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
    assert [(now.phase, now.step) for now in seen[1:4]] == [("see", 2), ("answer", 1), ("answer", 2)]
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
    assert whole.model.language_model.config._attn_implementation == "sdpa"
    with pytest.raises(StudyError, match="another recipe"):
        Training(Recipe(seed=9)).run(tmp_path / "parts", lambda _: None)
