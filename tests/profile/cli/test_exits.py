import pytest

from trio_core.errors import OptionError
from trio_profile.cli import exits
from trio_profile.errors import StoreError


@pytest.mark.parametrize("error", [StoreError("DIR holds\nno study"), OptionError("DIR holds no study")])
def test_an_error_of_the_user_is_one_line(error, capsys):
    assert exits.code_of(error) == 2
    assert capsys.readouterr().err == "trio-profile: error: DIR holds no study\n"


def test_a_fault_is_one_line_that_says_how_to_see_its_traceback(capsys, monkeypatch):
    monkeypatch.delenv(exits.TRACEBACK, raising=False)
    assert exits.code_of(ZeroDivisionError("division by zero")) == 2
    captured = capsys.readouterr().err
    assert captured.count("\n") == 1
    assert "ZeroDivisionError: division by zero" in captured
    assert "TRIO_PROFILE_TRACEBACK=1 shows where" in captured


def test_the_traceback_of_a_fault_can_be_asked_for(monkeypatch):
    monkeypatch.setenv(exits.TRACEBACK, "1")
    with pytest.raises(ZeroDivisionError):
        exits.code_of(ZeroDivisionError())


def test_an_interruption_mentions_kept_cells_only_if_some_are_kept(capsys):
    assert exits.code_of(KeyboardInterrupt()) == 130
    assert exits.code_of(exits.Interrupted(kept=False)) == 130
    assert capsys.readouterr().err == "trio-profile: interrupted\n" * 2
    assert exits.code_of(exits.Interrupted(kept=True)) == 130
    assert "what was measured is kept, and the same command goes on" in capsys.readouterr().err
