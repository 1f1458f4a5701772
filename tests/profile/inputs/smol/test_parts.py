import shutil
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from trio_profile.errors import StudyError
from trio_profile.inputs.smol import parts


@pytest.mark.parametrize(
    "part", [*parts.PHOTOGRAPHS["training"], *parts.PHOTOGRAPHS["exam"]], ids=lambda part: part.file
)
def test_scikit_image_ships_each_photograph(part):
    assert parts.path_of(part).is_file()


def test_no_photograph_is_in_both_groups():
    assert not set(parts.PHOTOGRAPHS["training"]) & set(parts.PHOTOGRAPHS["exam"])


@pytest.mark.parametrize("part", [parts.LANGUAGE, parts.TOWER], ids=lambda part: part.module)
def test_a_package_that_is_missing_is_one_line_with_the_command(part, monkeypatch):
    monkeypatch.setattr(parts, "find_spec", lambda _: None)
    with pytest.raises(StudyError, match=r"of [a-z0-9-]+==[0-9.]+, which is not installed: .*--no-deps") as refused:
        parts.path_of(part)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_another_one_is_refused_by_name(monkeypatch, tmp_path: Path):
    part = parts.PHOTOGRAPHS["exam"][0]
    (tmp_path / "data").mkdir()
    changed = Path(shutil.copy(parts.path_of(part), tmp_path / part.file))
    spec = ModuleSpec("skimage", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(parts, "find_spec", lambda _: spec)
    assert parts.path_of(part) == changed
    changed.write_bytes(changed.read_bytes() + b" ")
    with pytest.raises(StudyError, match=r"coffee\.png is another file \(sha256 [0-9a-f]{12}…, not cc02f8ca188b…\)"):
        parts.path_of(part)
