"""The rows of docs/reference/support.md: how a setup is registered and run, and what the page looks like.

A setup is a function that prunes a model in one ordinary way. It compares the result with an oracle, or it lets the
TrioError of a refusal through. So a row holds only what a run has shown.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partialmethod
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import torch

from tests.core import tiny
from tests.core.support import bench
from trio_core import TrioError, methods, prune
from trio_core.methods.method import Method
from trio_core.models import families
from trio_core.models.adapter import Adapter

Setup = Callable[..., Any]
"""Without an argument `model`, it compares its results itself.

With arguments among `model`, `one` and `trace` it is called inside a context of `prune(model, method)`. It may return
the prompt's output or that of `generate`: these are compared with the physically shortened sequence.
"""
Outcome = Literal["works", "refused", "fails"]

NOT_PORTABLE = r"0x[0-9a-f]{4,}|/(tmp|home|work|usr)/|Thread-\d|\d{9,}|\n"
"""What no row may say: addresses, paths, numbers of threads and processes, more than one line."""


def _families() -> str:
    """A row for each family: its name, its classes, and whether methods can look into its vision tower."""
    rows = []
    for name, adapter in sorted(families.items(), key=lambda item: item[0].lower()):
        classes = ", ".join(f"`{one}`" for one in adapter.classes)
        rows.append(f"| {name} | {classes} | {'work' if adapter.tower is not Adapter.tower else 'refused'} |")
    return "\n".join(rows)


INTRODUCTION = Path(__file__).with_name("introduction.md").read_text().replace("FAMILIES", _families())
"""The page up to its tables of setups: `introduction.md`, with the families filled in."""


@dataclass(frozen=True)
class Result:
    """What one run of a setup has shown.

    outcome: `fails` where the setup is neither right nor refused.
    says: the message of a refusal, or what the page says of a setup that works.
    """

    outcome: Outcome
    says: str


@dataclass(frozen=True)
class Row:
    """One setup.

    group, title: where it stands on the page. expected: the outcome that it must have. setup: runs it.
    says: what the page says of it, where it does not work like the others.
    method: prunes a setup that takes a model: a method, or the name of one that keeps half of the tokens.
    size: of its sample. attention: of its model.
    """

    group: str
    title: str
    expected: Outcome
    setup: Setup
    says: str = ""
    method: Method | str = bench.METHOD
    size: tiny.Size = "large"
    attention: str | None = None

    def run(self) -> Result:
        """Run the setup. Any error but a TrioError goes through."""
        torch.manual_seed(0)
        try:
            self._run()
        except TrioError as error:
            return Result("refused", str(error))
        finally:
            torch.compiler.reset()
        return Result("works", self.says)

    def _run(self) -> None:
        arguments = signature(self.setup).parameters.keys()
        if "model" not in arguments:
            self.setup()
            return
        model, one = bench.model(attention=self.attention), bench.sample(self.size)
        method = methods.find(self.method)(retention=0.5) if isinstance(self.method, str) else self.method
        with prune(model, method) as trace:
            context = {"model": model, "one": one, "trace": trace}
            result = self.setup(**{name: context[name] for name in arguments & context.keys()})
        if result is None:
            bench.dropped(trace, method=method)
        elif hasattr(result, "sequences"):
            bench.text_is_right(trace, one, result)
        else:
            same = method is bench.METHOD and self.size == "large"
            bench.prefill_is_right(trace, one, result.logits, same=same, method=method)


@dataclass
class Group:
    """A table of the page. title: its heading. rows: in the order in which the setups are written."""

    title: str
    rows: list[Row] = field(default_factory=list)

    def row(
        self, expected: Outcome, title: str, setup: Setup | None = None, **options: Any
    ) -> Callable[[Setup], Setup]:
        """Register a setup: `setup`, or the function that this decorates.

        expected: `works` if it must prune and be right, `refused` if it must raise a TrioError.
        options: further fields of its row.
        """

        def register(setup: Setup) -> Setup:
            self.rows.append(Row(self.title, title, expected, setup, **options))
            return setup

        if setup is not None:
            register(setup)
        return register

    works = partialmethod(row, "works")
    refused = partialmethod(row, "refused")


def page(groups: Iterable[Group], result_of: Callable[[Row], Result]) -> str:
    """docs/reference/support.md, with a section for each group: a list of what works, and a table of the rest.

    Setups with the same way out share a row of the table.
    """
    parts = [INTRODUCTION.rstrip()]
    for group in groups:
        rows: dict[str, dict[str, str]] = {}
        for row in group.rows:
            says = sentence(result_of(row))
            rows.setdefault(way_out(says), {})[row.title] = says
        works = rows.pop("", {})
        parts.append(f"## {group.title}")
        parts += ["These work:", "\n".join(f"- {title}" for title in works)] if works else []
        lines = []
        for way, says in rows.items():
            last = next(iter(says.values())) if len(set(says.values())) == 1 else way
            lines.append(f"| {_cell('<br>'.join(says))} | {_cell(last)} |")
        parts += ["\n".join(["| Setup | What happens |", "|---|---|", *lines])] if lines else []
    return "\n\n".join(parts) + "\n"


def sentence(result: Result) -> str:
    """What the page says of a result; empty if it works like the others."""
    return f"{result.outcome}: {result.says}" if result.says else ""


def way_out(says: str) -> str:
    """The last part of a refusal, which says what to do. Another sentence as it is."""
    head, _, last = says.rpartition(": ")
    return f"refused: … {last}" if head.startswith("refused") else says


def not_portable(text: str) -> str | None:
    """The first part of a text that another machine would print differently."""
    match = re.search(NOT_PORTABLE, text)
    return match and match.group()


def _cell(text: str) -> str:
    return text.replace("|", r"\|")
