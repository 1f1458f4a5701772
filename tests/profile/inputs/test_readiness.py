import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.core.tiny import fast_first
from tests.profile.family_checkpoints import Saved
from trio_profile.inputs.readiness import try_checkpoint
from trio_profile.records.facts import TrialStep
from trio_profile.records.schema import Study

STEPS = ["processor", "model", "chat template", "dense answer", "pruning", "pruned answer"]

Spoil = Callable[[Path], object]


def without(*names: str) -> Spoil:
    return lambda directory: [(directory / name).unlink() for name in names]


def template(text: str) -> Spoil:
    return lambda directory: (directory / "chat_template.jinja").write_text(text, encoding="utf-8")


def another_image_token(directory: Path) -> None:
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    (directory / "config.json").write_text(json.dumps({**config, "image_token_id": 5}), encoding="utf-8")


@pytest.fixture
def spoiled(saved: Saved, tmp_path: Path) -> Callable[[Spoil], list[TrialStep]]:
    """Tries a copy of Qwen2.5-VL's checkpoint that was spoiled."""

    def steps(spoil: Spoil) -> list[TrialStep]:
        directory = shutil.copytree(saved("Qwen2.5-VL"), tmp_path / "copy")
        spoil(directory)
        return try_checkpoint(Study(model=str(directory)))

    return steps


@pytest.mark.parametrize("name", fast_first(["Qwen2.5-VL", "LLaVA-NeXT", "Idefics3"], "Qwen2.5-VL"))
def test_a_whole_checkpoint_passes_every_step(saved: Saved, name: str):
    steps = try_checkpoint(Study(model=str(saved(name))))
    assert [(step.name, step.passed) for step in steps] == [(name, True) for name in STEPS]


@pytest.mark.slow
def test_a_built_in_checkpoint_is_asked_its_own_questions():
    """`pocket-video` takes no pictures."""
    steps = try_checkpoint(Study(model="pocket-video"))
    assert [step.passed for step in steps] == [True] * len(STEPS)


@pytest.mark.parametrize(
    ("spoil", "failed", "says"),
    [
        (without("processor_config.json"), "processor", "preprocessor_config.json"),
        (without("tokenizer.json", "tokenizer_config.json"), "processor", "a file of the tokenizer is missing"),
        (without("model.safetensors"), "model", "no file named model.safetensors"),
        (template("{{ raise_exception('no pictures') }}"), "chat template", "refuses a question: no pictures"),
        (template("hello"), "chat template", "Found total 0 <|image_pad|> tokens"),
        (another_image_token, "dense answer", "Image features and image tokens do not match"),
    ],
)
def test_what_is_missing_is_named_in_one_line_by_the_step_that_needs_it(spoiled, spoil: Spoil, failed: str, says: str):
    steps = spoiled(spoil)
    assert [step.name for step in steps] == STEPS[: STEPS.index(failed) + 1]
    assert [step.passed for step in steps] == [True] * (len(steps) - 1) + [False]
    assert says in steps[-1].seen
    assert "\n" not in steps[-1].seen


def test_a_missing_chat_template_is_no_fault_and_is_said(spoiled):
    step = next(step for step in spoiled(without("chat_template.jinja")) if step.name == "chat template")
    assert (step.passed, step.seen.split(";")[0]) == (True, "none, the prompt is plain")


def test_a_model_whose_pruning_is_wrong_is_not_ready(saved: Saved, monkeypatch):
    from trio_core.models.adapter import Adapter
    from trio_core.models.llava import Llava

    kept = Adapter.finish
    monkeypatch.setattr(Llava, "finish", lambda self, layer, rest, new: kept(self, layer, rest, 2 * new))
    last = try_checkpoint(Study(model=str(saved("LLaVA-1.5"))))[-1]
    assert (last.name, last.passed) == ("pruning", False)
    assert "saliency by `tail` differs from `autograd`" in last.seen
