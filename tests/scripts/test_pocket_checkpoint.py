"""The checkpoint in the package: that it was really trained, answers what it has never seen, and is a stock model."""

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoProcessor, LlavaForConditionalGeneration

from pocket_training.checkpoint import CHAT_TEMPLATE, VISUAL_TOKENS, VOCABULARY, config
from pocket_training.packing import question_ids
from pocket_training.recipe import Recipe
from tests.profile.studying import make
from trio_core import methods
from trio_profile.inputs.builtin import BUILTIN
from trio_profile.inputs.pocket import grammar
from trio_profile.inputs.pocket.scenes import render, scene
from trio_profile.inputs.workload import ask, build
from trio_profile.judge.accuracy import by_kind, by_question
from trio_profile.profilers import fidelity

QUESTIONS = 10


@pytest.fixture(scope="module")
def directory() -> Path:
    checkpoint = BUILTIN["pocket"].checkpoint()
    assert checkpoint is not None
    return checkpoint


@pytest.fixture(scope="module")
def against() -> fidelity.Reference:
    return fidelity.reference(build(make(model="pocket", fidelity_inputs=QUESTIONS)), 0, 0)


def test_the_checkpoint_keeps_its_recipe(directory: Path):
    recipe = json.loads((directory / "recipe.json").read_text())
    known = {field.name: recipe[field.name] for field in fields(Recipe)}
    made = Recipe(**{name: tuple(value) if isinstance(value, list) else value for name, value in known.items()})
    assert made == Recipe(seed=made.seed) and recipe["minutes"] is None  # the script's own, whole


def test_the_chat_template_makes_the_prompts_of_the_training(directory: Path):
    processor = AutoProcessor.from_pretrained(directory)
    assert processor.chat_template.rstrip("\n") == CHAT_TEMPLATE.rstrip("\n")
    form = {"add_generation_prompt": True, "tokenize": True, "return_dict": True, "return_tensors": "pt"}
    before = [VOCABULARY[word] for word in ("<s>", "user", ":")]
    for number in range(3):
        shown = scene(number)
        asked = grammar.ask(shown, number + 1, np.random.default_rng(number))
        content = [{"type": "image", "image": render(shown)}, {"type": "text", "text": asked.text}]
        inputs = processor.apply_chat_template([{"role": "user", "content": content}], **form)
        trained = [*before, *[VOCABULARY["<image>"]] * VISUAL_TOKENS, *question_ids(asked)[:-1]]  # without the answer
        assert inputs["input_ids"].tolist() == [trained]
        own = ask(processor, [render(shown)], asked.text)
        assert torch.equal(inputs["input_ids"], own["input_ids"])
        assert torch.equal(inputs["pixel_values"], own["pixel_values"])


def test_the_checkpoint_is_of_a_stock_class_with_this_configuration(directory: Path):
    model, seen = LlavaForConditionalGeneration.from_pretrained(directory, output_loading_info=True)
    assert not any(seen.values()), seen
    assert model.dtype == torch.bfloat16
    assert model.config.text_config.num_hidden_layers == config().text_config.num_hidden_layers >= 16
    assert model.config.image_seq_length == VISUAL_TOKENS == 576


@pytest.mark.slow
def test_the_model_answers_questions_that_it_was_not_trained_on(against: fidelity.Reference):
    """`scripts/train_pocket --exam` has all of 900."""
    kinds = [question.kind for question in against.workload.questions]
    shares = by_kind(by_question(against.correct, QUESTIONS), kinds)
    assert {kind: found.value for kind, found in shares.items()} == {"1 hop": 1, "2 hops": 1, "3 hops": 1}


@pytest.mark.slow
def test_a_random_selection_loses_forty_points_of_accuracy(
    against: fidelity.Reference, monkeypatch: pytest.MonkeyPatch
):
    """By one draw a question: 26 % of the answers are right."""
    monkeypatch.setattr(fidelity, "SEEDS", 1)
    seen = fidelity.measure(methods.find("random")(retention=0.111), against)
    drawn = by_question(seen.correct, QUESTIONS)
    assert drawn.mean() < by_question(against.correct, QUESTIONS).mean() - 0.4
