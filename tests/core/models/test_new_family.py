"""A new family is one file: in a copy of the source, ViP-LLaVA becomes a family, and no other file changes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

FILE = '''"""ViP-LLaVA: LLaVA-1.5 whose projector reads several layers of the tower."""

from typing import Any, ClassVar

from trio_core.models import toy
from trio_core.models.adapter import Adapter


class VipLlava(Adapter):
    """ViP-LLaVA. All defaults fit."""

    family: ClassVar[str] = "ViP-LLaVA"
    classes: ClassVar[tuple[str, ...]] = ("VipLlavaForConditionalGeneration",)
    toy_vision: ClassVar[dict[str, Any]] = toy.CLIP
    toy_options: ClassVar[dict[str, Any]] = {"image_token_index": toy.IMAGE, "vision_feature_layers": [-1, -2]}
'''

CHECK = """
from trio_core.models import families
from trio_profile.cli import main

for name in set(families) - {"ViP-LLaVA"}:
    del families[name]
main(["models", "--check"])
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of trio_core and of its tests, with one more file."""
    folder = tmp_path_factory.mktemp("source")
    for name in ("trio_core", "tests/core"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("tests/__init__.py", "tests/conftest.py", "tests/places.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "trio_core" / "models" / "vip_llava.py").write_text(FILE)
    return folder


def run(source: Path, *arguments: str) -> str:
    """The output of Python in the copy, which must succeed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(ROOT)])}
    finished = subprocess.run(
        [sys.executable, *arguments], cwd=source, env=environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.mark.slow
def test_the_laws_of_all_families_hold_for_it(source, pytestconfig):
    files = ["tests/core/models/test_families.py", "tests/core/models/test_adapter.py"]
    shapes = ["--shapes"] if pytestconfig.getoption("--shapes") else []
    listed = run(source, "-m", "pytest", *files, "-vv", "-k", "vip_llava", "-p", "no:cacheprovider", *shapes)
    for law in (
        "test_a_padded_batch_with_unequal_pictures",
        "test_at_full_retention_it_is_the_model_bit_by_bit_and_so_it_is_afterwards",
    ):
        assert f"{law}[vip_llava-sdpa" in listed
    assert "failed" not in listed


@pytest.mark.slow
def test_the_command_line_checks_it(source):
    assert "ViP-LLaVA" in run(source, "-c", CHECK)
