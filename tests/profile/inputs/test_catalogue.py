"""The catalogue agrees with the classes. The declared cost of a selection, against the plain sum for FastV."""

import runpy
import shutil
from pathlib import Path

import pytest

from trio_core import methods
from trio_core.errors import OptionError, UnknownName
from trio_core.models import adapter_for
from trio_profile.errors import StudyError
from trio_profile.inputs import catalogue
from trio_profile.inputs.trained import trained_as
from trio_profile.inputs.workload import Workload
from trio_profile.records.facts import SOURCE
from trio_profile.records.study import Study

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "catalogue"


def test_the_catalogue_agrees_with_the_classes():
    text = runpy.run_path(str(SCRIPT))["text"]()
    assert SOURCE.read_text(encoding="utf-8") == text, "run scripts/catalogue"


@pytest.mark.parametrize("change", [{"another.py": "0"}, {"trio.py": "0"}])
def test_a_new_or_changed_file_of_a_method_counts_before_the_catalogue_is_written_again(change, monkeypatch):
    read = list[str]()
    files = catalogue.method_files() | change
    monkeypatch.setattr(catalogue, "method_files", lambda: files)
    monkeypatch.setattr(catalogue, "stored", lambda: read.append("") or {"files": {}, "methods": []})
    assert catalogue.methods.__wrapped__() == {
        name: catalogue.facts_of(methods.find(name)) for name in catalogue.methods()
    }


def test_random_selection_costs_nothing_and_fastv_the_declared_share_of_a_layer():
    assert catalogue.methods()["random"].selection_macs == 0
    tokens, d, m = 576 + catalogue.TEXT_TOKENS, 4096, 11008
    facts = catalogue.methods()["fastv"]
    assert facts.selection_share == facts.selection_macs / (4 * tokens * d**2 + 2 * tokens**2 * d + 3 * tokens * d * m)
    assert 0 < catalogue.methods()["trio"].selection_share < 3


def test_methods_that_cannot_exist_are_refused_by_name():
    for name in ("trio", "visionzip+trio", "json:Mine"):
        catalogue.require_method(name)
    with pytest.raises(UnknownName, match="unknown method 'fastw'; known: cdpruner, dart"):
        catalogue.require_method("visionzip+fastw")
    with pytest.raises(OptionError, match=r"method 'no\.such:Mine' cannot be imported"):
        catalogue.require_method("no.such:Mine")


def test_the_depth_of_a_checkpoint_is_read_from_its_configuration(tiny_study: Study, tiny_workload: Workload):
    assert catalogue.num_layers(tiny_study.model) == len(adapter_for(tiny_workload.model).layers)
    with pytest.raises(StudyError, match="unknown model 'nonsense'"):
        catalogue.num_layers("nonsense")


def test_a_depth_that_the_configuration_leaves_out_is_that_of_its_class(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llava", "text_config": {"model_type": "llama"}}')
    assert catalogue.known_num_layers(str(tmp_path)) is None
    assert catalogue.num_layers(str(tmp_path)) == 32


def test_the_trained_models_alone_have_questions_of_their_own(tmp_path):
    assert catalogue.has_own_questions(Study(model="pocket"))
    assert not catalogue.has_own_questions(Study(model="pocket", prompt="Why?"))
    assert not catalogue.has_own_questions(Study(model="pocket-deep"))
    assert not catalogue.has_own_questions(Study(model=str(tmp_path)))
    shutil.copy(Path(catalogue.__file__).parents[1] / "data/pocket/recipe.json", tmp_path)
    assert catalogue.has_own_questions(Study(model=str(tmp_path)))


def test_a_recipe_says_which_questions_a_checkpoint_answers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for directory, file in (("one", "recipe.json"), ("two", "smol.json"), ("pocket-deep", "recipe.json")):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / file).touch()
    assert [trained_as(name) for name in ("one", "two", "pocket-deep", "smol")] == ["pocket", "smol", None, "smol"]


def test_a_hub_that_cannot_be_reached_is_named_with_the_model(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with pytest.raises(StudyError, match=r"model 'nobody/nothing' cannot be loaded: .*Connection refused"):
        catalogue.require_reachable("nobody/nothing")
