"""The pages of the documentation: their order, their titles, and `llms.txt`, a map of them for language models."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

SENTENCE = re.compile(r".+?(?<!e\.g)(?<!i\.e)[.?!](?= |$)")


def settings(root: Path) -> dict[str, Any]:
    """The settings of the site, from zensical.toml."""
    return tomllib.loads((root / "zensical.toml").read_text(encoding="utf-8"))["project"]


def sections(nav: list[Any]) -> Iterator[tuple[str, list[str]]]:
    """The sections of a nav in order: the title, and the files of the pages. Pages outside sections have no title.

    nav: a list of pages and sections, as in zensical.toml.
    """
    for entry in nav:
        title, value = next(iter(entry.items())) if isinstance(entry, dict) else ("", entry)
        if isinstance(value, list):
            yield title, [page for _, pages in sections(value) for page in pages]
        else:
            yield "", [value]


def missing(root: Path) -> list[str]:
    """What does not fit between the nav and the folder of the pages, one line each."""
    named = {page for _, pages in sections(settings(root)["nav"]) for page in pages}
    there = {path.relative_to(root / "docs").as_posix() for path in (root / "docs").rglob("*.md")}
    return [f"zensical.toml: nav names docs/{page}, which does not exist" for page in sorted(named - there)] + [
        f"docs/{page}: add it to nav in zensical.toml" for page in sorted(there - named)
    ]


def title_and_sentence(text: str) -> tuple[str, str]:
    """The title of a page and the first sentence of its first paragraph; either may be empty.

    text: the page, in Markdown.
    """
    title, last = "", ""
    for token in MarkdownIt("commonmark").parse(text):
        if token.type == "inline" and last == "heading_open" and not title:
            title = plain(token)
        elif token.type == "inline" and last == "paragraph_open":
            paragraph = plain(token)
            found = SENTENCE.match(paragraph)
            return title, found[0] if found else paragraph
        last = token.type
    return title, ""


def plain(token: Any) -> str:
    """The text of a heading or a paragraph, without markup.

    token: its inline token.
    """
    return " ".join("".join(" " if child.type == "softbreak" else child.content for child in token.children).split())


def llms(root: Path) -> str:
    """The text of llms.txt: the site's name, a sentence, and each page with its first sentence.

    https://llmstxt.org describes the form.
    """
    site = settings(root)
    parts = [f"# {site['site_name']}\n\n> {site['site_description']}"]
    last = ""
    for title, pages in sections(site["nav"]):
        lines = [_line(root, page) for page in pages]
        parts.append("\n".join(lines) if title in ("", last) else f"## {title}\n\n" + "\n".join(lines))
        last = title
    return "\n\n".join(parts) + "\n"


def _line(root: Path, page: str) -> str:
    """The line of one page."""
    title, sentence = title_and_sentence((root / "docs" / page).read_text(encoding="utf-8"))
    return f"- [{title}]({page.removesuffix('.md')}.html)" + (f": {sentence}" if sentence else "")
