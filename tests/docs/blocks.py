"""The code blocks of a page of the documentation, and what is done with each.

bash, python         runs, unless its title begins with "Needs"
console              commands and their output: the commands run, and the output is compared
text                 output or a drawing
toml, yaml, json     data
any, with a file's name for a title: the block is written to that file
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
RUN = ("bash", "python", "console")
SHOWN = ("text", "toml", "yaml", "json", "jsonl", "latex", "css")
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]

FILE = re.compile(r"[\w.-]+(?:/[\w.-]+)*\.\w+")
INFO = re.compile(r'(?P<language>[\w-]+)(?: title="(?P<title>[^"]+)")?')
NEEDS = "Needs"


class Mistake(Exception):
    """Something is wrong with a block. The message begins with the page and the line."""


class Use(StrEnum):
    """What is done with a block."""

    RUN = "run"
    COMPARE = "run and compared"
    WRITE = "written to a file"
    SHOW = "shown only"
    NEED = "not run"


@dataclass(frozen=True)
class Block:
    """A code block of a page.

    page: path of the page from the root of the repository.
    line: line of the fence, counted from 1.
    language: the first word behind the fence.
    title: its title; empty if it has none.
    text: the code, with a newline at its end.
    """

    page: str
    line: int
    language: str
    title: str
    text: str

    @property
    def place(self) -> str:
        """Page and line, as messages name them."""
        return f"{self.page}:{self.line}"

    @property
    def use(self) -> Use:
        """What is done with it. Raises Mistake for a block of no known sort."""
        if self.title.split(" ")[0] == NEEDS:
            if self.language not in RUN or self.title == NEEDS:
                raise Mistake(f"{self.place}: title {self.title!r}: only {', '.join(RUN)} can need something; say what")
            return Use.NEED
        if FILE.fullmatch(self.title):
            if ".." in self.title.split("/"):
                raise Mistake(f"{self.place}: file {self.title!r} is outside the page's directory")
            return Use.WRITE
        if self.language in RUN:
            return Use.COMPARE if self.language == "console" else Use.RUN
        if self.language in SHOWN:
            return Use.SHOW
        raise Mistake(f"{self.place}: language {self.language!r} is unknown; choose {', '.join((*RUN, *SHOWN))}")


def read(path: Path, root: Path = ROOT) -> list[Block]:
    """The blocks of a page, in order.

    path: the page.
    root: what the names of pages are relative to.

    Raises Mistake for a block that names no language or an unknown one, for an indented one, and for a wrong title.
    """
    found = blocks(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix())
    for block in found:
        _ = block.use  # raises Mistake for an unknown language and for a wrong title
    return found


def blocks(text: str, page: str) -> list[Block]:
    """The blocks of a text, in order.

    text: the page, in Markdown.
    page: its name in messages.

    Raises Mistake for a block that names no language, and for an indented one.
    """
    found = []
    for token in MarkdownIt("commonmark").parse(_without_front_matter(text)):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "code_block":
            raise Mistake(f"{page}:{line}: an indented code block: put it into a fence that says its language")
        if token.type == "fence":
            info = INFO.fullmatch(token.info.strip())
            if info is None:
                raise Mistake(f'{page}:{line}: a fence with {token.info!r}: write a language, and at most title="…"')
            found.append(Block(page, line, info["language"], info["title"] or "", token.content))
    return found


def _without_front_matter(text: str) -> str:
    """The text with its front matter made empty, so that lines keep their numbers."""
    front = re.match(r"---\n.*?\n---\n", text, flags=re.DOTALL)
    return "\n" * front[0].count("\n") + text[front.end() :] if front else text
