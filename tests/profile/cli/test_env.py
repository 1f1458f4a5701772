import pytest

from tests.profile.command import complaint, document
from trio_profile.cli import run


def test_the_environment_is_the_one_that_studies_record(capsys):
    assert document(capsys, "env", "--device", "cpu")["environment"]["transformers"].startswith("5.")


@pytest.mark.parametrize("form", [[], ["--markdown"], ["--latex"]])
def test_the_environment_is_printed_for_people(form, capsys):
    assert run(["env", *form]) == 0
    assert "transformers" in capsys.readouterr().out


def test_a_missing_device_is_refused_in_one_line(capsys):
    assert "cuda:7" in complaint(capsys, "env", "--device", "cuda:7")
