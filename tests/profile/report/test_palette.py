"""Colours that can be seen on both papers, and symbols for those who cannot tell colours apart."""

import re
from itertools import pairwise
from pathlib import Path

from tests.profile.examples import document, study
from tests.profile.reading import blocks, table
from trio_profile.inputs.catalogue import methods
from trio_profile.kinds.grid import sweep
from trio_profile.report import html
from trio_profile.report.blocks import Chart
from trio_profile.report.palette import INK, PALETTE, SYMBOLS, hex_colour, number_of, symbol

STYLE = (Path(html.__file__).parent / "page.css").read_text()


def luminance(colour: str) -> float:
    """Relative luminance of sRGB, as WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(first: str, second: str) -> float:
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_each_colour_can_be_seen_on_white_and_on_near_black():
    for colour in (*PALETTE, INK):
        white, black = re.findall(r"--paper: (#\w{6})", STYLE)
        assert white == "#ffffff" and contrast(colour, white) >= 3 and contrast(colour, black) >= 3


def test_a_colour_and_a_symbol_occur_together_once_in_56_numbers():
    assert len({(hex_colour(number), symbol(number)) for number in range(56)}) == 56
    neighbours = [(hex_colour(number), symbol(number)) for number in range(24)]
    assert all(a[0] != b[0] and a[1] != b[1] for a, b in pairwise(neighbours))


def test_the_page_draws_each_symbol():
    style = (Path(html.__file__).parent / "tables.css").read_text()
    assert all(f".dot.{name}" in style for name in SYMBOLS)


def test_a_method_has_one_colour_and_symbol_on_every_page():
    alone, beside = (sweep.report(document(study(methods=names))) for names in (("fastv",), ("trio", "grid", "fastv")))
    numbers = {line.colour for report in (alone, beside) for chart in blocks(report, Chart) for line in chart.series}
    numbers |= {row[0].colour for row in table(beside, "Speed-up [95 % interval], and cost relative to dense").rows}
    assert numbers - {None} == {number_of(name) for name in ("trio", "grid", "fastv")}


def test_no_two_built_in_methods_share_a_colour_with_a_symbol_and_other_methods_keep_theirs():
    pairs = {(hex_colour(number_of(name)), symbol(number_of(name))) for name in methods()}
    assert len(pairs) == len(methods())
    assert number_of("mine") == number_of("mine") != number_of("yours")
