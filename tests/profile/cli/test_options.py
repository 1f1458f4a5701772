import pytest
import typer

from trio_profile import units
from trio_profile.cli import options
from trio_profile.cli.options import OPTIONS, SPECIAL, default_of, fields
from trio_profile.kinds.servers.study import EndpointStudy
from trio_profile.records.schema import Study
from trio_profile.stats.intervals import MACHINE_FREEDOM, MACHINE_SPREAD
from trio_profile.stats.two_way import Centre
from trio_profile.studies.kinds import FIELDS, KINDS

NOT_FIELDS = {"budget_rule", *options.DISPLAY}
"""Options that fill no field: an option of the methods, and how a report is drawn."""

MODEL_OPTIONS = {name for kind in KINDS.values() if kind.runs_a_model for name in kind.options}
"""Options that fill a field of Study."""


def as_text(value) -> str:
    if isinstance(value, tuple):
        return ",".join(map(as_text, value))
    return value if isinstance(value, str) else units.plain(value)


def test_every_option_of_every_kind_is_declared():
    taken = {name for kind in KINDS.values() for name in kind.options}
    assert taken == set(OPTIONS)
    assert {name for _, name in SPECIAL} <= taken


def test_every_option_fills_a_field_of_a_study():
    filled = {options.field_of(name) for name in OPTIONS if name not in NOT_FIELDS}
    assert filled <= {*Study.model_fields, *EndpointStudy.model_fields}


def test_the_help_says_the_default_of_a_study():
    said = {}
    for name, option in OPTIONS.items():
        study = EndpointStudy if name in KINDS["endpoints"].options and name not in MODEL_OPTIONS else Study
        field = study.model_fields.get(options.field_of(name))
        default = None if field is None or isinstance(field.default, bool) else field.default
        on_the_machine = name in ("device", "dtype")
        if isinstance(default, str | int | float | tuple) and option.default and not on_the_machine:
            said[name] = (option.default, as_text(default))
    assert len(said) >= 10
    assert all(text == default for text, default in said.values()), said


def test_the_help_says_the_default_of_a_kind():
    assert default_of("retention", KINDS["compare"]) == "0.333"
    assert default_of("retention", KINDS["flops"]) == "the dense model alone"
    assert default_of("method", KINDS["compare"]) == "all methods"
    assert default_of("seconds", KINDS["layers"]) == "20"
    assert default_of("device", KINDS["flops"]) == "cpu"
    assert default_of("method", KINDS["flops"]) == "trio if --retention is given; otherwise the dense model"


def test_every_help_is_one_or_more_whole_sentences():
    for name, option in {**OPTIONS, **{name: option for (_, name), option in SPECIAL.items()}}.items():
        assert option.help[0].isupper() or option.help.startswith(("cpu", "lmms")), name
        assert option.help.endswith("."), name
        assert not option.default.endswith("."), name


def test_only_options_with_a_value_become_fields():
    given = {"model": "pocket", "method": ["trio", "grid"], "retention": "0.2, 0.5", "layers": "1,8", "seconds": 2.0}
    assert fields({**given, "prompt": None, "only": [], "unit": "flops", "out": "somewhere"}) == {
        "model": "pocket",
        "methods": ("trio", "grid"),
        "retentions": (0.2, 0.5),
        "layers": (1, 8),
        "seconds": 2.0,
    }


def test_the_budget_rule_is_an_option_of_the_methods():
    found = fields({"budget_rule": "final", "option": ["threshold=0.9"]})
    assert found == {"options": {"threshold": 0.9, "budget_rule": "final"}}


def test_groups_of_variants_are_named_without_their_variants():
    assert fields({"only": ["k_pos", "probe"]}) == {"ablations": {"k_pos": {}, "probe": {}}}


def test_every_option_with_another_field_is_an_option():
    assert set(FIELDS) <= set(OPTIONS)


def test_the_budget_rule_is_one_of_the_method_s_options():
    given = {"option": ["k_pos=2"], "budget_rule": "final"}
    assert fields(given) == {"options": {"k_pos": 2, "budget_rule": "final"}}


def test_a_path_holds_in_another_directory(tmp_path, monkeypatch):
    from pathlib import Path

    monkeypatch.chdir(tmp_path)
    assert fields({"image": Path("cat.png")}) == {"image": str(tmp_path / "cat.png")}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"retention": "half"}, "--retention 'half'"),
        ({"layers": "1.5"}, "--layers '1.5'"),
        ({"option": ["colour"]}, "name=value"),
    ],
)
def test_text_that_cannot_be_read_is_named(given, says):
    with pytest.raises(typer.BadParameter, match=says):
        fields(given)


def test_a_width_that_no_time_reaches_is_refused_unless_a_time_is_named():
    floor = Centre(log=0.0, error=MACHINE_SPREAD, freedom=MACHINE_FREEDOM, samples=1, processes=1).half_width()
    assert floor == pytest.approx(options.NARROWEST, rel=0.02)
    with pytest.raises(typer.BadParameter, match=r"--until 0\.01 cannot be reached"):
        fields({"until": 0.01})
    assert fields({"until": 0.01, "device": "cuda"})["seconds"] == options.LONGEST_SECONDS
    assert fields({"until": 0.01, "seconds": 9.0})["seconds"] == 9.0
