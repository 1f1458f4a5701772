"""The tokens of a picture: as the page's script reads them, and as a browser draws them."""

import json
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.core.tiny import fast_first
from tests.profile.browser import View
from tests.profile.examples import PIXEL
from tests.profile.report.test_html import HOSTILE
from trio_profile.report import html
from trio_profile.report.blocks import DrawnStage, DrawnTokens, Grid, Page, Report, Tokens


def test_bytes_are_base64_and_kept_tokens_are_bits():
    first = DrawnStage(1, "kept 2 of 9", bytes([1, 0, 0, 0, 0, 0, 0, 0, 1]), bytes(range(9)), "0", "8")
    second = DrawnStage(3, "kept 0 of 9", bytes(9), merges=True, merged_into=[-1, 0, 70_000] + [0] * 6)
    third = DrawnStage(5, "kept 0 of 9", bytes(9), merges=True)
    one = DrawnTokens("trio", 0.25, "25.0 %", "said", [first, second, third])
    block = Tokens("tokens", "", "", 9, [Grid("", 3, 3)], [one], ["trio"], picture="data:,")
    found = json.loads(html.token_data(block))
    assert found["picture"] == "data:," and found["count"] == 9 and found["methods"] == ["trio"]
    assert found["grids"] == [{"name": "", "rows": 3, "columns": 3, "first": 0, "newline": False}]
    (drawn,) = found["maps"]
    assert (drawn["method"], drawn["retention"], drawn["where"]) == ("trio", 0.25, "25.0 %")
    assert b64decode(drawn["stages"][0]["kept"]) == bytes([0b10000000, 0b10000000])
    assert b64decode(drawn["stages"][0]["scores"]) == bytes(range(9)) and "merges" not in drawn["stages"][0]
    assert np.frombuffer(b64decode(drawn["stages"][1]["into"]), "<i4").tolist() == [-1, 0, 70_000] + [0] * 6
    assert drawn["stages"][2]["into"] == "" and "scores" not in drawn["stages"][2]


# --- in a browser ----------------------------------------------------------------------------------------------------


def stage(layer: int, kept: list[int], **fields: Any) -> DrawnStage:
    mask = bytes(int(number in kept) for number in range(9))
    return DrawnStage(layer, f"kept {len(kept)} of 9 after layer {layer}", mask, **fields)


def two_methods(**fields: Any) -> Tokens:
    """Nine tokens. One method scores, the other one has a hostile name, merges, and was measured at one retention."""
    scored = {"scores": bytes([254, 0, 0, 0, 0, 0, 0, 0, 255]), "low": "0", "high": "2"}
    maps = [
        DrawnTokens("trio", 0.1, "10.0 %", "", [stage(1, [0, 1], **scored), stage(10, [0])]),
        DrawnTokens("trio", 0.5, "50.0 %", "", [stage(1, [0, 1, 2, 3], **scored), stage(10, [0, 3])]),
        DrawnTokens(HOSTILE, 0.1, "10.0 %", "", [stage(5, [0, 8], merges=True, merged_into=[0] * 7 + [-1, 8])]),
    ]
    known = {"count": 9, "grids": [Grid("", 3, 3)], "maps": maps, "methods": ["trio", HOSTILE], "picture": PIXEL}
    return Tokens("tokens", "caption", "label", **{**known, **fields})


LOOK = """() => [...document.querySelectorAll(".token-panel")].map((panel) => ({
  said: panel.querySelector("figcaption").textContent,
  label: panel.querySelector("canvas")?.getAttribute("aria-label"),
  legend: panel.querySelector(".token-legend")?.textContent,
  pixels: [...Array(9).keys()].map((number) => {
    const canvas = panel.querySelector("canvas");
    if (!canvas) return null;
    const x = ((number % 3) + 0.5) * canvas.width / 3, y = (Math.floor(number / 3) + 0.5) * canvas.height / 3;
    return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data].slice(0, 3);
  }),
}))"""
"""What each panel says, and the colour in the middle of each token."""


@pytest.fixture
def drawn(show) -> Callable[..., View]:
    """A function that opens a page of these tokens, and waits until the picture is drawn."""

    def run(tokens: Tokens, **settings: Any) -> View:
        view = show(tokens, **settings)
        view.wait("document.querySelectorAll('.token-panel').length > 0")
        view.page.wait_for_timeout(200)
        return view

    return run


@pytest.mark.slow
def test_kept_tokens_are_bright_and_others_dimmed(drawn):
    view = drawn(two_methods())
    trio, other = view.page.evaluate(LOOK)
    assert trio["said"] == "triokept 1 of 9 after layer 10"
    assert trio["label"] == "trio at 10.0 %: kept 1 of 9 after layer 10"
    assert other["said"] == f"{HOSTILE}kept 2 of 9 after layer 5; 6 others merged into them; trio keeps 1 of them too"
    assert trio["pixels"][0] == other["pixels"][8] == [255, 0, 0]
    assert min(trio["pixels"][8]) > 200  # the paper's white over the red picture
    assert min(other["pixels"][7]) > min(other["pixels"][4]) > 100  # merged tokens are dimmed less than lost ones
    assert view.errors == [] and view.requests == []
    assert view.page.locator("main img, a[href*='x.test']").count() == 0


def test_in_the_dark_others_are_dimmed_to_black_and_on_paper_to_white(drawn):
    view = drawn(two_methods(), color_scheme="dark")
    trio, _ = view.page.evaluate(LOOK)
    assert trio["pixels"][0] == [255, 0, 0] and max(trio["pixels"][8]) < 80
    view.page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    assert min(view.page.evaluate(LOOK)[0]["pixels"][8]) > 200
    view.page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    assert max(view.page.evaluate(LOOK)[0]["pixels"][8]) < 80


def test_the_keyboard_moves_through_stages_and_retentions(drawn):
    view = drawn(two_methods())
    first = view.page.locator("input[name=stage]")
    first.focus()
    view.page.keyboard.press("Home")
    assert first.get_attribute("aria-valuetext") == "after layer 1"
    assert [one["said"] for one in view.page.evaluate(LOOK)] == [
        "triokept 2 of 9 after layer 1",
        f"{HOSTILE}keeps all 9 tokens up to layer 1",
    ]
    view.page.locator("input[name=retention]").focus()
    view.page.keyboard.press("ArrowRight")
    assert [one["said"] for one in view.page.evaluate(LOOK)] == [
        "triokept 4 of 9 after layer 1",
        f"{HOSTILE}not measured at 50.0 %",
    ]


def test_a_clip_is_a_strip_of_frames_and_the_slider_enlarges_one(drawn):
    """Two frames of nine tokens. Of the first frame two tokens stay, of the second one."""
    grids = [Grid("frame 1 of 2", 3, 3), Grid("frame 2 of 2", 3, 3, first=9)]
    mask = bytes(number in (0, 1, 17) for number in range(18))
    maps = [DrawnTokens("evs", 0.1, "10.0 %", "", [DrawnStage(0, "kept 3 of 18", mask)])]
    view = drawn(two_methods(count=18, grids=grids, maps=maps, methods=["evs"], frames=[PIXEL, PIXEL]))
    canvases = (
        "() => [...document.querySelectorAll('.token-panel canvas')].map((one) => one.getAttribute('aria-label'))"
    )
    name = "evs at 10.0 %, frame {} of 2: kept 3 of 18"
    assert view.page.evaluate(canvases) == [name.format(1), name.format(2), name.format(1)]
    view.page.locator("input[name=frame]").focus()
    view.page.keyboard.press("ArrowRight")
    assert view.page.evaluate(canvases)[2] == name.format(2)
    assert view.page.locator("input[name=frame]").get_attribute("aria-valuetext") == "2 of 2"


def test_scores_are_a_heat_map_with_its_scale(drawn):
    view = drawn(two_methods())
    view.page.locator("input[name=stage]").fill("0")
    view.page.get_by_label("scores").check()
    trio, other = view.page.evaluate(LOOK)
    assert trio["legend"] == "02"
    yellow, violet = trio["pixels"][0], trio["pixels"][1]
    assert yellow[1] > 180 > 100 > yellow[2] and violet[1] < 40 < violet[2]
    assert min(trio["pixels"][8]) > 200  # it has no score
    assert other["said"].endswith("no scores at this stage") and other["legend"] is None


def test_four_methods_at_most_stand_side_by_side(drawn):
    one = two_methods().maps[0]
    names = ["a", "b", "c", "d", "e", "f"]
    view = drawn(two_methods(maps=[replace(one, method=name) for name in names], methods=names[:2]))
    boxes = view.page.locator(".token-methods input")
    assert boxes.count() == 6 and view.page.locator(".token-panel").count() == 2
    for name in ("e", "f"):
        view.page.get_by_label(name, exact=True).check()
    assert view.page.locator(".token-panel strong").all_inner_texts() == ["a", "b", "e", "f"]
    assert view.page.locator(".token-methods input:disabled").count() == 2
    view.page.get_by_label("a", exact=True).uncheck()
    assert view.page.locator(".token-methods input:disabled").count() == 0


def test_controls_without_a_selection_are_hidden(drawn):
    one = replace(two_methods().maps[0], stages=[stage(1, [0])])
    view = drawn(two_methods(maps=[one], methods=["trio"]))
    assert view.page.locator(".token-controls :is(label, fieldset):visible").count() == 0


def test_without_a_picture_kept_tokens_are_darker_than_others(drawn):
    pixels = drawn(two_methods(picture="")).page.evaluate(LOOK)[0]["pixels"]
    assert sum(pixels[0]) < sum(pixels[8]) - 100


def test_a_grid_of_tiles_has_a_column_of_newlines(drawn):
    grids = [Grid("whole picture", 2, 2), Grid("tiles", 2, 2, 4, newline=True)]
    mask = bytes([1, 0, 0, 0, 0, 1, 1, 0, 0, 0])
    one = DrawnTokens("trio", 0.1, "10.0 %", "", [DrawnStage(1, "kept 3 of 10 after layer 1", mask)])
    view = drawn(two_methods(grids=grids, maps=[one], count=10, methods=["trio"]))
    assert view.page.locator(".token-panel p").all_inner_texts() == [
        "whole picture",
        "tiles, newline tokens at the right",
    ]
    pixel = """([place, x, y]) => {
      const canvas = document.querySelectorAll("canvas")[place];
      return [...canvas.getContext("2d").getImageData(x * canvas.width, y * canvas.height, 1, 1).data].slice(0, 3);
    }"""
    seen = [view.page.evaluate(pixel, list(place)) for place in ((0, 0.25, 0.25), (0, 0.75, 0.25), (1, 0.5, 0.25))]
    assert seen[0] == seen[2] == [255, 0, 0] and min(seen[1]) > 200
    kept, lost = (view.page.evaluate(pixel, [1, 5 / 6, y]) for y in (0.25, 0.75))  # newline tokens, no picture
    assert sum(kept) < sum(lost) - 100


@pytest.mark.parametrize(("width", "scheme"), fast_first([(390, "light"), (1280, "dark")], 390))
def test_nothing_overflows_and_axe_finds_nothing_serious(drawn, width, scheme):
    view = drawn(two_methods(), width=width, color_scheme=scheme)
    view.page.get_by_label("scores").check()
    assert view.page.evaluate("document.documentElement.scrollWidth") <= width
    assert view.findings() == []


def test_no_name_in_the_data_of_the_tokens_ends_their_script():
    text = html.render(Report("all", "kinds", [], [Page("page", "Page", "", [two_methods()])]))
    assert "<" not in text[text.index('class="token-data">') + len('class="token-data">') :].partition("</script>")[0]
