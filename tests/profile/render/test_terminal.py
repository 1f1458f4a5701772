"""Kept tokens as characters."""

from trio_profile.findings.blocks import DrawnStage, DrawnTokens, Grid, Tokens
from trio_profile.render.terminal import character_map


def tokens(*stages: DrawnStage, grids: tuple[Grid, ...] = (Grid("", 3, 2),)) -> Tokens:
    maps = [DrawnTokens("trio", 0.5, "50.0 %", "", []), DrawnTokens("trio", 0.1, "10.0 %", "", stages)]
    return Tokens("tokens", "", "", 6, grids, maps, ["trio"])


FIRST = DrawnStage(2, "", bytes([1, 0, 1, 1, 0, 1]))
SECOND = DrawnStage(12, "", bytes([0, 0, 1, 0, 0, 0]))


def test_two_rows_of_tokens_make_a_line():
    assert character_map(tokens(FIRST, SECOND), 80) == [
        "trio at 10.0 %, a mark for each token that stays:",
        "af   af",
        "█▄   ▄·",
        "·▀   ··",
    ]


def test_the_last_stages_stay_where_not_all_of_them_fit():
    assert character_map(tokens(FIRST, SECOND), 4)[1:] == ["af", "▄·", "··"]
    assert character_map(tokens(FIRST, SECOND), 1) == []


def test_a_column_of_newlines_is_left_out():
    stage = DrawnStage(0, "", bytes([0, 1, 1, 0]))
    assert character_map(tokens(stage, grids=(Grid("", 2, 1, newline=True),)), 80)[1:] == ["a", "▄"]


def test_nothing_is_drawn_without_stages_or_grids():
    assert character_map(tokens(), 80) == []
    assert character_map(tokens(FIRST, grids=()), 80) == []
