"""The kept tokens as one picture file."""

import io
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from documentation.token_sheet import HEAD, MARGIN, WIDTH, drawn_stage, token_sheet
from tests.profile.documents import keep
from tests.profile.examples import PIXEL, kept, measurement, picture, study
from trio_profile.report.blocks import DrawnStage, DrawnTokens, Grid, Tokens

ROOT = Path(__file__).parents[2]

RED = Image.new("RGB", (4, 4), "red")
FIRST = DrawnStage(1, "kept 2 of 4 after layer 1", bytes([1, 0, 1, 0]), bytes([254, 0, 127, 255]), "0", "2")
SECOND = DrawnStage(10, "kept 1 of 4 after layer 10", bytes([1, 0, 0, 0]), merges=True, merged_into=[-1, -1, 0, -1])


def block(**fields) -> Tokens:
    """Four tokens in a square: two methods at 10 %, one of them also at 50 %."""
    maps = [
        DrawnTokens("trio", 0.5, "50.0 %", "", [FIRST]),
        DrawnTokens("trio", 0.1, "10.0 %", "", [FIRST, SECOND]),
        DrawnTokens("fastv", 0.1, "10.0 %", "", [SECOND]),
    ]
    known = {"count": 4, "grids": [Grid("", 2, 2)], "maps": maps, "methods": ["trio", "fastv"], "picture": PIXEL}
    return Tokens("tokens", "caption", "label", **{**known, **fields})


def middles(found: Image.Image, rows: int = 2, columns: int = 2) -> list[tuple]:
    """The colour in the middle of each token."""
    wide, high = found.width / columns, found.height / rows
    places = [((column + 0.5) * wide, (row + 0.5) * high) for row in range(rows) for column in range(columns)]
    return [found.getpixel((int(x), int(y))) for x, y in places]


def sheet(*args, **options) -> Image.Image:
    return Image.open(io.BytesIO(token_sheet(*args, **options)))


def test_kept_tokens_are_as_bright_as_the_picture_and_others_dimmed():
    found = drawn_stage(block(), FIRST, RED)
    assert found.size == (WIDTH, WIDTH)
    assert middles(found) == [(255, 0, 0), (255, 217, 217), (255, 0, 0), (255, 217, 217)]


def test_scores_are_a_heat_map_over_the_picture_in_grey():
    high, low, middle, none = middles(drawn_stage(block(), FIRST, RED, scores=True))
    grey = round(0.299 * 255)
    yellow, violet = (np.array(colour) * 0.85 + grey * 0.15 for colour in ((0xFD, 0xE7, 0x25), (0x44, 0x01, 0x54)))
    assert high == pytest.approx(tuple(yellow), abs=1) and low == pytest.approx(tuple(violet), abs=1)
    assert middle[1] > middle[0] and middle[1] > 100  # green
    assert none == pytest.approx((255 * 0.85 + grey * 0.15,) * 3, abs=1)  # no score: dimmed


def test_newline_tokens_stand_at_the_right_and_grids_below_each_other():
    grids = [Grid("whole picture", 1, 1), Grid("tiles", 2, 1, first=1, newline=True)]
    stage = DrawnStage(1, "", bytes([1, 0, 1, 1, 0]))
    found = drawn_stage(block(grids=grids, count=5), stage, RED)
    assert found.size == (2 * WIDTH, 2 * WIDTH)
    assert middles(found.crop((0, 0, WIDTH, WIDTH)), 1, 1) == [(255, 0, 0)]
    lost, newline, kept, other = middles(found.crop((0, WIDTH, 2 * WIDTH, 2 * WIDTH)))
    assert (lost, kept) == ((255, 217, 217), (255, 0, 0))
    assert max(newline) < 160 and min(other) > 250  # off the picture


def test_the_lowest_retention_has_a_row_for_each_method_and_one_for_its_scores():
    found = sheet(block())
    assert found.format == "PNG" and found.width == 3 * MARGIN + 2 * WIDTH
    left, top = MARGIN, MARGIN + HEAD
    for stage in (FIRST, SECOND):
        assert found.crop((left, top, left + WIDTH, top + WIDTH)) == drawn_stage(block(), stage, RED)
        left += WIDTH + MARGIN
    alone, without_scores = sheet(block(), ["trio"]), sheet(block(), ["fastv"])
    assert found.height - 2 * MARGIN == alone.height + without_scores.height - 4 * MARGIN
    assert alone.height - 2 * MARGIN > 2 * (without_scores.height - 2 * MARGIN - HEAD)


def test_the_script_draws_the_picture_of_a_study_or_says_why_not(tmp_path, monkeypatch, capsys):
    keep(tmp_path, study(retentions=(0.11,)), [measurement().model_copy(update={"kept": kept()})]).append(picture())
    out = tmp_path / "tokens.png"
    for more, code in (([], 0), (["--retention", "0.2"], 2)):
        monkeypatch.setattr(sys, "argv", ["token_picture", str(tmp_path), "--out", str(out), *more])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(ROOT / "scripts" / "token_picture"), run_name="__main__")
        assert (ended.value.code or 0) == code
    assert out.read_bytes().startswith(b"\x89PNG") and "choose --retention 0.11" in capsys.readouterr().err
