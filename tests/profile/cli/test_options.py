from pathlib import Path

import pytest
import typer

from trio_profile.cli import options
from trio_profile.cli.options import assignments, default_of, fields, name_or_path
from trio_profile.records.option import options_of
from trio_profile.records.study import Study
from trio_profile.stats.intervals import MACHINE_FREEDOM, MACHINE_SPREAD
from trio_profile.stats.two_way import Centre
from trio_profile.study.kinds import KINDS


def test_a_kind_takes_fields_that_have_an_option_and_every_option_is_taken():
    for study in {kind.load("study") for kind in KINDS.values()}:
        taken = {name for kind in KINDS.values() if kind.load("study") is study for name in kind.options}
        missing = set() if {"audit", "eval", "flops", "layers", "theory"} <= set(KINDS) else set(options_of(study))
        assert taken <= set(options_of(study)) <= taken | missing


def test_the_help_says_the_default_of_a_field_or_of_the_kind():
    for kind, field, said in (
        ("sweep", "model", "pocket"),
        ("sweep", "prompt", ""),
        ("theory", "retentions", "0.05,0.11,0.33,0.66"),
        ("flops", "methods", "trio if --retention is given; otherwise the dense model"),
    ):
        assert kind not in KINDS or default_of(KINDS[kind], field) == said, (kind, field)


def test_only_options_with_a_value_become_fields():
    given = {"model": "pocket", "methods": ["trio", "grid"], "retentions": "0.2, 0.5", "layers": "1,8", "seconds": 2.0}
    assert fields(Study, {**given, "prompt": None, "ablations": [], "unit": "flops", "out": "somewhere"}) == {
        "model": "pocket",
        "methods": ("trio", "grid"),
        "retentions": (0.2, 0.5),
        "layers": (1, 8),
        "seconds": 2.0,
    }


def test_each_form_of_text_becomes_the_value_of_its_field(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert fields(Study, {"options": ["k_pos=2"]}) == {"options": {"k_pos": 2}}
    assert fields(Study, {"ablations": ["k_pos", "probe"]}) == {"ablations": {"k_pos": {}, "probe": {}}}
    assert fields(Study, {"image": Path("cat.png")}) == {"image": str(tmp_path / "cat.png")}
    assert fields(Study, {"tasks": "pope, gqa"}) == {"tasks": ("pope", "gqa")}


def test_a_width_that_no_time_reaches_is_refused_unless_a_time_is_named():
    floor = Centre(log=0.0, error=MACHINE_SPREAD, freedom=MACHINE_FREEDOM, samples=1, processes=1).half_width()
    assert floor == pytest.approx(options.NARROWEST, rel=0.02)
    with pytest.raises(typer.BadParameter, match=r"--until 0\.01 cannot be reached"):
        fields(Study, {"precision": 0.01})
    assert fields(Study, {"precision": 0.01, "device": "cuda"})["seconds"] == options.LONGEST_SECONDS
    assert fields(Study, {"precision": 0.01, "seconds": 9.0})["seconds"] == 9.0


def test_an_assignment_is_read_as_a_number_a_truth_value_or_a_word():
    found = assignments(["threshold=0.9", "nms=false", "k_pos=4", "probe=next", "path=a=b"])
    assert found == {"threshold": 0.9, "nms": False, "k_pos": 4, "probe": "next", "path": "a=b"}


@pytest.mark.parametrize(
    ("text", "says"), [("colour", "name=value"), ("=1", "name=value"), ("k=[1]", "number, true, false or a word")]
)
def test_an_assignment_that_cannot_be_read_is_named(text, says):
    with pytest.raises(typer.BadParameter, match=says):
        assignments([text])


def test_a_name_stays_a_name_unless_it_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "claims.yaml").write_text("")
    assert name_or_path("claims.yaml") == str(tmp_path / "claims.yaml")
    for name in ("trio-2026", "x" * 5000, "a\0b"):
        assert name_or_path(name) == name
