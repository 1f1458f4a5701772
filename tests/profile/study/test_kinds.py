import pytest

from trio_profile.errors import StudyError
from trio_profile.study.kinds import KINDS, find

PARTS = ("study", "runner", "document", "report", "prepare")


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_name_in_the_registry_loads(kind):
    for part in PARTS:
        if getattr(kind, part) and not (part == "runner" and kind.extra):  # the extra may be missing
            assert callable(kind.load(part)), (kind.name, part)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_a_kind_names_fields_that_exist(kind):
    assert {*kind.options, *kind.defaults, *kind.several, *kind.empty_words} <= set(kind.load("study").model_fields)
    assert kind.summary.partition("\n")[0].endswith(".")


def test_a_kind_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(StudyError, match="no kind of study is called 'swep'; choose sweep, compare"):
        find("swep")
