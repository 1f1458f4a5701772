"""Fixtures that several modules' tests share."""

from pathlib import Path

import pytest
import skimage.data

from tests.profile.checkpoints import save_tiny_llava
from trio_profile.inputs.workload import Workload, build
from trio_profile.records.schema import Study


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved checkpoint."""
    return save_tiny_llava(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="session")
def photograph() -> Path:
    """A real photograph in the public domain: Chelsea the cat."""
    return Path(skimage.data.data_dir) / "chelsea.png"


@pytest.fixture(scope="session")
def tiny_study(checkpoint: Path, photograph: Path) -> Study:
    """A study of the checkpoint that takes a second or two."""
    return Study(
        model=str(checkpoint),
        image=str(photograph),
        prompt="What is this?",
        retentions=(0.4, 0.8),
        new_tokens=3,
        cell_seconds=0.05,
        precision=0.5,
    )


@pytest.fixture(scope="session")
def tiny_workload(tiny_study: Study) -> Workload:
    """Its model and input."""
    return build(tiny_study)
