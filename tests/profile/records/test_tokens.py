"""Kept tokens as bytes: worked by hand, there and back, and refused if they cannot be."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.profile.examples import counted, measurement
from trio_profile.records.log import LogReader
from trio_profile.records.schema import KeptTokens, Measurement, Picture, StageTokens, TokenGrid

PIXEL = "data:image/png;base64,iVBORw0KGgo="


def test_a_stage_by_hand():
    """Tokens 0, 3 and 9 of 10 stay; 5 was dropped before; 1 went into 0, and 2 into 9."""
    scores = [4.0, 0.0, 1.0, 2.0, 0.0, np.nan, 0.0, 0.0, 0.0, 3.0]
    into = [0, 0, 9, 3, -1, -1, -1, -1, -1, 9]
    stage = StageTokens.of(8, 10, [0, 3, 9], scores, merges=True, merged_into=into)
    assert stage.kept == bytes([0b10010000, 0b01000000])
    assert list(stage.scores) == [254, 0, 64, 127, 0, 255, 0, 0, 0, 190]  # 63.5 and 190.5 round to the even number
    assert (stage.low, stage.high) == (0.0, 4.0)
    assert stage.merged_into == bytes([0, 0, 0, 0, 9, 0, 3, 0, *[255] * 10, 9, 0])
    assert stage.mask(10).nonzero()[0].tolist() == [0, 3, 9]
    assert stage.destinations().tolist() == into


def test_equal_scores_are_the_lowest_huge_ones_keep_their_order_and_a_stage_without_scores_has_none():
    assert list(StageTokens.of(1, 3, [0], [2.0, 2.0, np.nan]).scores) == [0, 0, 255]
    for scores in (None, [np.nan, np.inf]):
        stage = StageTokens.of(1, 2, [0], scores)
        assert (stage.scores, stage.low, stage.high) == (b"", None, None)
    assert stage.destinations() is None
    assert list(StageTokens.of(1, 3, [0], [-1.7e308, 0.0, 1.7e308]).scores) == [0, 127, 254]


@given(st.integers(1, 3000).flatmap(lambda count: st.tuples(st.just(count), st.sets(st.integers(0, count - 1)))))
def test_kept_numbers_come_back(sizes):
    count, kept = sizes
    assert StageTokens.of(1, count, sorted(kept)).mask(count).nonzero()[0].tolist() == sorted(kept)


def test_a_line_is_text_and_comes_back():
    stage = StageTokens.of(0, 300, range(7), np.linspace(-1, 1, 300), merges=True, merged_into=[-1] * 300)
    kept = KeptTokens(visual_tokens=300, stages=(stage,))
    one = counted(measurement()).model_copy(update={"kept": kept})
    line = one.model_dump_json(exclude_none=True)
    assert isinstance(json.loads(line)["kept"]["stages"][0]["scores"], str)
    assert Measurement.model_validate_json(line) == one
    picture = Picture(visual_tokens=300, grids=(TokenGrid(rows=15, columns=20),), image=PIXEL, prompt="What?")
    assert LogReader(Path()).parse(picture.model_dump_json().encode()) == picture


def test_bytes_that_do_not_fit_the_tokens_are_refused():
    for field, value, says in (
        ("kept", b"\x00", "kept has 1 bytes; 10 visual tokens need 2"),
        ("scores", b"\x00" * 9, "scores has 9 bytes"),
        ("merged_into", b"\x00" * 10, "merged_into has 10 bytes"),
        ("scores", b"\x00" * 10, "scores need their lowest and highest value"),
    ):
        fields = {"layer": 1, "kept": b"\x00\x00", field: value}
        with pytest.raises(ValidationError, match=says):
            KeptTokens(visual_tokens=10, stages=(StageTokens(**fields),))


@pytest.mark.parametrize(
    "image",
    ["http://x.test/a.png", "data:image/svg+xml;base64,AAAA", 'data:image/png;base64,"onload=', f"{PIXEL}\n<b>"],
)
def test_only_small_pictures_in_the_line_itself_are_read(image):
    with pytest.raises(ValidationError, match="image"):
        Picture(visual_tokens=1, image=image)


def test_a_grid_ends_within_the_tokens():
    TokenGrid(rows=2, columns=3, newline=True)
    assert Picture(visual_tokens=8, grids=(TokenGrid(rows=2, columns=3, newline=True),)).grids[0].tokens == 8
    with pytest.raises(ValidationError, match="a grid ends at token 9 of 8"):
        Picture(visual_tokens=8, grids=(TokenGrid(rows=2, columns=3, first=1, newline=True),))
