import pytest
import typer

from trio_profile.cli.values import absolute, assignments, name_or_path


def test_an_assignment_is_read_as_a_number_a_truth_value_or_a_word():
    found = assignments(["threshold=0.9", "nms=false", "k_pos=4", "probe=next", "path=a=b"])
    assert found == {"threshold": 0.9, "nms": False, "k_pos": 4, "probe": "next", "path": "a=b"}


@pytest.mark.parametrize(
    ("text", "says"), [("colour", "name=value"), ("=1", "name=value"), ("k=[1]", "number, true, false or a word")]
)
def test_an_assignment_that_cannot_be_read_is_named(text, says):
    with pytest.raises(typer.BadParameter, match=says):
        assignments([text])


def test_a_path_is_kept_as_an_absolute_one(tmp_path, monkeypatch):
    from pathlib import Path

    monkeypatch.chdir(tmp_path)
    assert absolute(Path("cat.png")) == str(tmp_path / "cat.png")


def test_a_name_stays_a_name_unless_it_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "claims.yaml").write_text("")
    assert name_or_path("claims.yaml") == str(tmp_path / "claims.yaml")
    for name in ("trio-2026", "x" * 5000, "a\0b"):
        assert name_or_path(name) == name
