"""Every link of the built site, and of the Markdown files that are read on GitHub: whether what it points to is there.

A page is checked as the browser gets it. So a link that the generator made is checked like one that somebody wrote.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt

from documentation.pages import plain

LINKS = {"a": "href", "link": "href", "img": "src", "script": "src", "iframe": "src", "source": "src"}
LOADED = {"img", "script", "iframe", "source"}
"""Elements whose file the browser loads at once."""
EVERYWHERE = "404.html"
"""A page that is shown at any address, so that its links are not relative."""
MARKS = ("- ", "* ", "| ", "```", "!!! ")
"""What a line of a paragraph begins with if Markdown was not understood as its writer meant it."""


@dataclass
class Page:
    """What a page of the site has.

    ids: the places that a link may point to.
    links: the address, and whether the browser loads it at once.
    slips: lines of paragraphs that look like Markdown.
    """

    ids: set[str] = field(default_factory=set)
    links: list[tuple[str, bool]] = field(default_factory=list)
    slips: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    """Reads a Page from HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self.paragraph: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.page.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag in LINKS and LINKS[tag] in given:
            styles = tag == "link" and given.get("rel") in ("stylesheet", "preload", "icon", "preconnect")
            self.page.links.append((given[LINKS[tag]], styles or tag in LOADED))
        if tag == "p":
            self.paragraph = []
        elif self.paragraph is not None:
            self.paragraph.append("\x00")  # markup is not text that begins a line

    def handle_data(self, data: str) -> None:
        if self.paragraph is not None:
            self.paragraph.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "p" and self.paragraph is not None:
            lines = "".join(self.paragraph).splitlines()
            self.page.slips += [line.replace("\x00", "") for line in lines if line.startswith(MARKS)]
            self.paragraph = None


def read(path: Path) -> Page:
    """What a page of the site has."""
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.page


def pages_of(site: Path) -> list[Path]:
    """The pages of a site. Its reports, which have tests of their own, are not among them."""
    paths = sorted(site.rglob("*.html"))
    return [path for path in paths if path.name != EVERYWHERE and path.relative_to(site).parts[0] != "reports"]


def check(site: Path) -> list[str]:
    """What is wrong with the links of a site, one line each: page, link, and why.

    site: the folder of the built site.
    """
    pages = {path: read(path) for path in pages_of(site)}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        found += [f"{name}: {link}: {why}" for link, loaded in page.links if (why := _wrong(link, loaded, path, pages))]
        found += [
            f"{name}: a paragraph has the line {slip!r}: Markdown wants an empty line before" for slip in page.slips
        ]
    return found


def _wrong(link: str, loaded: bool, path: Path, pages: dict[Path, Page]) -> str:
    """Why a link is wrong; empty if it is not.

    loaded: whether the browser loads its file at once.
    path: the page that has the link.
    """
    parts = urlsplit(link)
    if parts.scheme in ("http", "https"):
        if loaded:
            return "is loaded from the network"
        return "" if "." in parts.netloc and " " not in link else "is no address"
    if parts.scheme or parts.netloc:
        return "" if parts.scheme in ("mailto", "data") else f"scheme {parts.scheme!r} is unknown"
    if parts.path.startswith("/"):
        return "is not relative"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "there is no such file"
    place = unquote(parts.fragment)
    if place and target in pages and place not in pages[target].ids:
        return f"the page has no place {place!r}"
    return ""


def check_files(files: list[Path], root: Path) -> list[str]:
    """What is wrong with the relative links of Markdown files, such as README.md, one line each.

    files: files that are read on GitHub, and are no pages of the site.
    root: the root of the repository.
    """
    pages = {path.resolve(): read_markdown(path) for path in (*files, *(root / "docs").rglob("*.md"))}
    return [
        f"{path.relative_to(root).as_posix()}: {link}: {why}"
        for path in files
        for link, _ in pages[path.resolve()].links
        if (why := _wrong_in_file(link, path, pages))
    ]


def read_markdown(path: Path) -> Page:
    """What a Markdown file has on GitHub: its links, in Markdown and in HTML, and the anchors of its headings."""
    reader, headings, last = _Reader(), Counter[str](), ""
    for token in MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8")):
        if token.type == "inline" and last == "heading_open":
            name = anchor(plain(token))
            reader.page.ids.add(f"{name}-{headings[name]}" if headings[name] else name)
            headings[name] += 1
        for part in (token, *(token.children or ())):
            if part.type in ("html_block", "html_inline"):
                reader.feed(part.content)
            reader.page.links += [(str(part.attrs[name]), False) for name in ("href", "src") if name in part.attrs]
        last = token.type
    return reader.page


def anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading: small letters, a hyphen for each space, and no other punctuation.

    heading: its text without markup.
    """
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _wrong_in_file(link: str, path: Path, pages: Mapping[Path, Page]) -> str:
    """Why a link of a Markdown file is wrong; empty if it is not.

    path: the file that has the link.
    pages: the Markdown files that were read.
    """
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return ""
    target = (path.parent / unquote(parts.path) if parts.path else path).resolve()
    if not target.exists():
        return "there is no such file"
    place = unquote(parts.fragment)
    if place and target in pages and place not in pages[target].ids:
        return f"the page has no place {place!r}"
    return ""
