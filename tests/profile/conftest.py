"""Fixtures that several modules' tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import skimage.data

from tests.profile import stand_in
from tests.profile.checkpoints import save_tiny_llava
from tests.profile.family_checkpoints import Saved, save_family
from trio_profile.inputs.workload import Workload, build
from trio_profile.records.schema import Study
from trio_profile.study.kinds import KINDS


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved checkpoint."""
    return save_tiny_llava(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """Saves a tiny checkpoint of a model family when its name is first asked for. The tests leave it unchanged."""
    directory = tmp_path_factory.mktemp("families")

    def save(name: str) -> Path:
        place = directory / name.replace(" ", "-")
        return place if place.exists() else save_family(name, place)

    return save


@pytest.fixture(scope="session")
def photograph() -> Path:
    """A real photograph in the public domain: Chelsea the cat."""
    return Path(skimage.data.data_dir) / "chelsea.png"


@pytest.fixture(scope="session")
def tiny_study(checkpoint: Path, photograph: Path) -> Study:
    """A study of the checkpoint in this process: another one takes seconds, and hides from tests what it does."""
    return Study(
        model=str(checkpoint),
        image=str(photograph),
        prompt="What is this?",
        retentions=(0.4, 0.8),
        new_tokens=3,
        seconds=0.1,
        processes=1,
    )


@pytest.fixture(scope="module")
def without_fvcore() -> Iterator[None]:
    """Studies of this module have no count by fvcore, whose trace takes a third of their time."""
    from trio_profile.profilers import flops_counted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flops_counted, "fvcore", lambda *_: (None, "not asked"))
        yield


@pytest.fixture(scope="session")
def tiny_workload(tiny_study: Study) -> Workload:
    """Its model and input."""
    return build(tiny_study)


@pytest.fixture
def weigh(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind of `stand_in.py` is among the others."""
    monkeypatch.setitem(KINDS, stand_in.KIND.name, stand_in.KIND)
