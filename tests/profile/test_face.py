"""The Python face: what `import trio_profile` offers."""

import inspect

import trio_profile
from tests.profile.command import document
from trio_profile.study.kinds import KINDS

NAMES = {"eval": "evaluate", "audit": "audit_paper"}
"""Kinds whose function has another name: `eval` is Python's own, and `audit` is a room of the package."""


def test_every_kind_of_study_has_its_function():
    functions = [NAMES.get(kind, kind) for kind in KINDS if kind != "theory"]  # `run("theory", …)`
    assert {*functions, "run", "read"} <= set(trio_profile.__all__)
    for name in trio_profile.__all__:
        assert inspect.getdoc(getattr(trio_profile, name)), name


def test_a_function_returns_the_document_that_the_command_line_prints(weigh, tmp_path, capsys):
    found = trio_profile.run("weigh", tmp_path, model="pocket")
    printed = document(capsys, "show", tmp_path)
    assert found.model_dump(mode="json") == printed | {"report": str(tmp_path / "report.html")}
    assert trio_profile.read(str(tmp_path)) == found.model_copy(update={"report": None})
