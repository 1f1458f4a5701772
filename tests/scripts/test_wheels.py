"""`scripts/wheels`: the verbs that it tries in an empty environment are those of the program."""

import runpy
import shutil

import pytest

from tests.places import REPORTS, ROOT
from trio_profile.cli import run

BASE = runpy.run_path(str(ROOT / "scripts" / "wheels"))["BASE"]


@pytest.mark.parametrize(("words", "saying"), BASE, ids=[" ".join(words) for words, _ in BASE])
def test_each_verb_that_needs_no_torch_ends_well_and_says_what_is_asked(tmp_path, capsys, monkeypatch, words, saying):
    shutil.copytree(REPORTS / "pocket" / "compare", tmp_path / "STUDY", ignore=shutil.ignore_patterns("report.html"))
    monkeypatch.chdir(tmp_path)
    assert run(words) == 0
    printed = capsys.readouterr()
    assert saying in printed.out + printed.err
