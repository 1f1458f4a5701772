import sys

import pytest

from tests.profile import lmms_stand_in
from trio_profile.errors import StudyError
from trio_profile.study.kinds import KINDS, find

PARTS = ("study", "runner", "document", "report", "prepare")


@pytest.fixture
def with_lmms_eval(monkeypatch):
    """lmms-eval or its stand-in, for the runner of `eval`."""
    for name, module in lmms_stand_in.install().items():
        monkeypatch.setitem(sys.modules, name, module)
    for name in lmms_stand_in.IMPORTERS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in lmms_stand_in.IMPORTERS:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_name_in_the_registry_loads(kind, with_lmms_eval):
    for part in PARTS:
        if getattr(kind, part):
            assert callable(kind.load(part)), (kind.name, part)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_a_kind_names_fields_that_exist(kind):
    assert {*kind.options, *kind.defaults, *kind.several, *kind.empty_words} <= set(kind.load("study").model_fields)
    assert kind.summary.partition("\n")[0].endswith(".")


def test_a_kind_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(StudyError, match="no kind of study is called 'swep'; choose sweep, compare, eval"):
        find("swep")
