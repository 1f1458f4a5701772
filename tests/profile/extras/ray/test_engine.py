"""The options of `--engine ray`, and what is shown while it measures."""

import pytest

from trio_profile.cli import run
from trio_profile.engine.overview import Overview
from trio_profile.extras.ray.engine import live


def test_without_a_terminal_a_line_is_said(capsys):
    with live() as show:
        show(Overview(4, 1, 7, {}, 125.0))
    assert capsys.readouterr().err.startswith("trio-profile: 4 of 12 runs measured")


@pytest.mark.parametrize(("option", "value"), [("--address", "auto"), ("--cores", "2"), ("--attempts", "1")])
def test_an_option_of_ray_needs_ray(option, value, tmp_path, capsys):
    assert run(["sweep", "--out", str(tmp_path), option, value]) == 2
    assert f"{option} needs --engine ray" in capsys.readouterr().err
