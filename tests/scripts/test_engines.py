"""`scripts/engines`: what can be tested without an engine."""

import runpy
from pathlib import Path

import pytest

from tests.profile.documents import endpoints_document
from trio_profile.errors import ProfileError

ENGINES = Path(__file__).resolve().parents[2] / "scripts" / "engines"


@pytest.fixture(scope="module")
def repeat() -> dict:
    """The functions of the script."""
    return runpy.run_path(str(ENGINES / "repeat"))


def test_a_run_repeats_itself_and_a_shifted_gain_is_listed(repeat, capsys):
    first = repeat["estimates"](endpoints_document())
    assert repeat["compare"](first, first) == 1
    place = next(place for place in first if place.of == "gains")
    moved = first | {place: first[place].model_copy(update={"value": 99.0})}
    assert repeat["compare"](first, moved) == 1 - 1 / len(first)
    said = capsys.readouterr().out
    assert f"{' '.join(place)}: 99, first run [" in said
    assert f"{len(first) - 1} of {len(first)}" in said


def test_studies_without_a_common_quantity_are_refused(repeat):
    with pytest.raises(ProfileError, match="two runs of the same command"):
        repeat["compare"](repeat["estimates"](endpoints_document()), {})
