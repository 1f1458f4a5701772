from trio_profile.cli import run
from trio_profile.studies import shared


def test_the_status_of_a_study_is_printed(tiny_study, tmp_path, capsys):
    shared.prepare(tiny_study.model_copy(update={"processes": 2}), tmp_path)
    assert run(["work", str(tmp_path), "--status"]) == 0
    assert "0 of 4 runs measured" in capsys.readouterr().out
