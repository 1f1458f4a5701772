"""docs/glossary.md is as the terms say."""

import re
import runpy
from pathlib import Path

from trio_profile.report.definitions import terms

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "glossary"))
PAGE = (ROOT / "docs" / "glossary.md").read_text()


def anchors() -> list[str]:
    """The anchors of the page's headings: their own, or what a site makes of them."""
    found = []
    for heading in re.findall(r"^## (.+)$", PAGE, flags=re.MULTILINE):
        text, _, named = heading.partition(" { #")
        found.append(named.removesuffix(" }") or re.sub(r"\W+", "-", text.lower()))
    return found


def test_the_page_is_up_to_date():
    assert SCRIPT["text"]() == PAGE, "run scripts/glossary"


def test_each_term_has_its_anchor():
    assert anchors() == [SCRIPT["anchor"](term) for term in terms()]
    assert {"kv-cache", "fastv-macs", "counted-macs", "points-lost"} <= set(anchors())


def test_every_link_within_the_page_leads_to_a_term():
    assert set(re.findall(r"\]\(#([^)]*)\)", PAGE)) <= set(anchors())
