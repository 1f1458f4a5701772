"""The tokens as the page's script reads them."""

import json
import re
from base64 import b64decode
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.profile.examples import PIXEL
from tests.profile.render.test_html import CHROMIUM, HOSTILE, browse
from trio_profile.findings.blocks import Grid, Page, Report, TokenMap, Tokens, TokenStage
from trio_profile.render import html
from trio_profile.render.token_data import token_data


def test_bytes_are_base64_and_kept_tokens_are_bits():
    first = TokenStage(1, "kept 2 of 9", bytes([1, 0, 0, 0, 0, 0, 0, 0, 1]), bytes(range(9)), "0", "8")
    second = TokenStage(3, "kept 0 of 9", bytes(9), merges=True, merged_into=[-1, 0, 70_000] + [0] * 6)
    third = TokenStage(5, "kept 0 of 9", bytes(9), merges=True)
    one = TokenMap("trio", 0.25, "25.0 %", "said", [first, second, third])
    block = Tokens("tokens", "", "", 9, [Grid("", 3, 3)], [one], ["trio"], picture="data:,")
    found = json.loads(token_data(block))
    assert found["picture"] == "data:," and found["count"] == 9 and found["shown"] == ["trio"]
    assert found["grids"] == [{"name": "", "rows": 3, "columns": 3, "first": 0, "newline": False}]
    (drawn,) = found["maps"]
    assert (drawn["method"], drawn["retention"], drawn["where"]) == ("trio", 0.25, "25.0 %")
    assert b64decode(drawn["stages"][0]["kept"]) == bytes([0b10000000, 0b10000000])
    assert b64decode(drawn["stages"][0]["scores"]) == bytes(range(9)) and "merges" not in drawn["stages"][0]
    assert np.frombuffer(b64decode(drawn["stages"][1]["into"]), "<i4").tolist() == [-1, 0, 70_000] + [0] * 6
    assert drawn["stages"][2]["into"] == "" and "scores" not in drawn["stages"][2]


# --- in a browser ----------------------------------------------------------------------------------------------------


def stage(layer: int, kept: list[int], **fields: Any) -> TokenStage:
    mask = bytes(int(number in kept) for number in range(9))
    return TokenStage(layer, f"kept {len(kept)} of 9 after layer {layer}", mask, **fields)


def two_methods(**fields: Any) -> Tokens:
    """Nine tokens. One method scores, the other one has a hostile name, merges, and was measured at one retention."""
    scored = {"scores": bytes([254, 0, 0, 0, 0, 0, 0, 0, 255]), "low": "0", "high": "2"}
    maps = [
        TokenMap("trio", 0.1, "10.0 %", "", [stage(1, [0, 1], **scored), stage(10, [0])]),
        TokenMap("trio", 0.5, "50.0 %", "", [stage(1, [0, 1, 2, 3], **scored), stage(10, [0, 3])]),
        TokenMap(HOSTILE, 0.1, "10.0 %", "", [stage(5, [0, 8], merges=True, merged_into=[0] * 7 + [-1, 8])]),
    ]
    known = {"grids": [Grid("", 3, 3)], "maps": maps, "shown": ["trio", HOSTILE], "picture": PIXEL}
    return Tokens("tokens", "caption", "label", 9, **{**known, **fields})


LOOK = """<script>
addEventListener("load", () => setTimeout(() => {
  const form = document.querySelector(".token-controls"), seen = [];
  const look = () => seen.push([...document.querySelectorAll(".token-panel")].map((panel) => ({
    said: panel.querySelector("figcaption").textContent,
    label: panel.querySelector("canvas")?.getAttribute("aria-label"),
    legend: panel.querySelector(".token-legend")?.textContent,
    pixels: [...Array(9).keys()].map((number) => {
      const canvas = panel.querySelector("canvas");
      if (!canvas) return null;
      const x = ((number % 3) + 0.5) * canvas.width / 3, y = (Math.floor(number / 3) + 0.5) * canvas.height / 3;
      return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data].slice(0, 3);
    }),
  })));
  const say = (element) => element.dispatchEvent(new Event("input", { bubbles: true }));
  look();
  form.elements.stage.value = 0; say(form.elements.stage); look();
  form.querySelector("[value=scores]").checked = true; say(form); look();
  form.elements.retention.value = 1; say(form); look();
  form.querySelectorAll("[type=checkbox]")[0].checked = false; say(form); look();
  const text = JSON.stringify({ seen, stage: form.elements.stage.getAttribute("aria-valuetext") });
  document.body.append(Object.assign(document.createElement("pre"), { id: "seen", textContent: text }));
}, 300));
</script>"""


def looked_at(block: Tokens, directory: Path) -> dict[str, Any]:
    """What the panels say and show at first, at the first stage, with scores, at the second retention, without trio."""
    path = html.write(Report("all", "kinds", [], [Page("page", "Page", "", [block])]), directory)
    path.write_text(path.read_text().replace("</body>", f"{LOOK}</body>"))
    dom, console = browse(path, directory / "profile")
    assert console == []
    assert not re.search(r"<img|href=\"http", dom[dom.index("<main>") :].partition('id="seen"')[0])
    found = re.search(r'<pre id="seen">(.*?)</pre>', dom, flags=re.DOTALL)
    assert found
    return json.loads(unescape(found[1]))


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: chromium, chromium-browser or google-chrome")
def test_a_browser_draws_kept_tokens_and_follows_the_controls(tmp_path: Path):
    found = looked_at(two_methods(), tmp_path)
    first, early, scored, second, alone = found["seen"]
    trio, other = first
    assert trio["said"] == "triokept 1 of 9 after layer 10"
    assert trio["label"] == "trio at 10.0 %: kept 1 of 9 after layer 10"
    assert other["said"] == f"{HOSTILE}kept 2 of 9 after layer 5; 6 others merged into them; trio keeps 1 of them too"
    assert trio["pixels"][0] == [255, 0, 0]
    assert min(trio["pixels"][8]) > 200  # the paper's white over the red picture
    assert other["pixels"][8] == [255, 0, 0]
    assert min(other["pixels"][7]) > min(other["pixels"][4]) > 100  # merged tokens are dimmed less than lost ones
    assert early[0]["said"] == "triokept 2 of 9 after layer 1"
    assert early[1]["said"] == f"{HOSTILE}keeps all 9 tokens up to layer 1"
    assert scored[0]["legend"] == "02"
    yellow, violet = scored[0]["pixels"][0], scored[0]["pixels"][1]
    assert yellow[1] > 180 > 100 > yellow[2] and violet[1] < 40 < violet[2]
    assert scored[1]["said"].endswith("no scores at this stage")
    assert second[0]["said"] == "triokept 4 of 9 after layer 1"
    assert second[1]["said"] == f"{HOSTILE}not measured at 50.0 %"
    assert [panel["said"] for panel in alone] == [second[1]["said"]]
    assert found["stage"] == "after layer 1"


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: chromium, chromium-browser or google-chrome")
def test_without_a_picture_kept_tokens_are_darker_than_others(tmp_path: Path):
    first, *_ = looked_at(two_methods(picture=""), tmp_path)["seen"]
    pixels = first[0]["pixels"]
    assert sum(pixels[0]) < sum(pixels[8]) - 100


def test_a_page_without_tokens_has_none_of_the_script():
    assert "token-panels" not in html.render(Report("all", "kinds", [], [Page("page", "Page", "", [])]))
    text = html.render(Report("all", "kinds", [], [Page("page", "Page", "", [two_methods()])]))
    assert "<" not in text[text.index('class="token-data">') + len('class="token-data">') :].partition("</script>")[0]
