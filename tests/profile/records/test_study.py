"""A study and its cells."""

from hashlib import sha256

import pytest
from pydantic import ValidationError

from tests.profile.studying import make
from trio_profile.records.schema import Cell, Header, Study
from trio_profile.records.study import of_any_age


def test_a_cell_without_options_keeps_the_id_of_older_records():
    """What every store before has it by: of its JSON at that time."""
    then = sha256(b'{"method":"trio","retention":0.11}').hexdigest()
    assert Cell(method="trio", retention=0.11).id == then[:12]
    assert Cell(method="trio", retention=0.11, options={"k_pos": 1}).id != Cell(method="trio", retention=0.11).id


def test_cells_are_methods_times_retentions_without_repeats():
    study = make(methods=("trio", "grid"), retentions=(0.5, 0.2, 0.5))
    assert [(c.method, c.retention) for c in study.cells()] == [
        ("trio", 0.2),
        ("trio", 0.5),
        ("grid", 0.2),
        ("grid", 0.5),
    ]


def test_an_older_study_with_other_runs_is_refused():
    """Its times are not those of the same study without these settings."""
    for field, other in (("preroll_ms", 5.0), ("cold_l2", True)):
        with pytest.raises(ValidationError, match="preroll_ms or cold_l2, which are gone; measure it into another"):
            Study.model_validate({field: other}, extra="ignore")
        assert Study.model_validate({field: 0}, extra="ignore") == Study()


def test_a_field_that_is_gone_is_passed_over_by_name_and_any_other_one_is_not():
    kept = {"verb": "endpoints", "match": "normalised"}
    assert of_any_age({**kept, "check_cache": False, "chek_cache": 1}) == {**kept, "chek_cache": 1}


def test_an_older_study_was_judged_by_the_rule_of_its_time():
    """It names none. A kind that judges no answers has the usual rule."""
    verbs = ("sweep", "compare", "ablate", "endpoints", "eval", "flops")
    rules = [of_any_age({"verb": verb}).get("match") for verb in verbs]
    assert rules == ["exact"] * 4 + [None] * 2 and of_any_age({})["match"] == "exact"
    assert of_any_age({"match": "contains"})["match"] == "contains" and of_any_age(3) == 3
    stored = Header.model_validate({"study": {"verb": "sweep"}})
    assert stored.study.match == "exact"
