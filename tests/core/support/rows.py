"""The rows of docs/reference/support.md: how a setup is registered and run, and what the page looks like.

A setup is a function that prunes a model in one ordinary way. It returns a sentence that says what was compared, or it
lets the TrioError of a refusal through. So a row holds only what a run has shown.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, Literal

import torch

from tests.core.support import bench
from tests.core.support.introduction import INTRODUCTION
from trio_core import TrioError, prune

Setup = Callable[..., Any]
"""Without arguments, it returns the sentence of its row; a refused one may return nothing.

With the arguments `model`, `one` and perhaps `trace` it is called inside a context of `prune(model, bench.METHOD)`. It
may return the prompt's logits or the output of `generate`: these are compared with the physically shortened sequence.
"""
Outcome = Literal["works", "refused", "fails"]

NOT_PORTABLE = r"0x[0-9a-f]{4,}|/(tmp|home|work|usr)/|Thread-\d|\d{9,}|\n"
"""What no row may say: addresses, paths, numbers of threads and processes, more than one line."""


@dataclass(frozen=True)
class Result:
    """What one run of a setup has shown.

    outcome: `fails` where the setup is neither right nor refused.
    says: the sentence of a check, or the message of a refusal.
    """

    outcome: Outcome
    says: str


@dataclass(frozen=True)
class Row:
    """One setup.

    group, title: where it stands on the page. expected: the outcome that it must have. setup: runs it.
    """

    group: str
    title: str
    expected: Outcome
    setup: Setup

    def run(self) -> Result:
        """Run the setup. Any error but a TrioError goes through."""
        torch.manual_seed(0)
        try:
            return Result("works", self._said() or "not refused")
        except TrioError as error:
            return Result("refused", str(error))
        finally:
            torch.compiler.reset()

    def _said(self) -> str | None:
        """The sentence of the setup."""
        asked = signature(self.setup).parameters.keys()
        if not asked >= {"model", "one"}:
            return self.setup()
        model, one = bench.model(), bench.sample()
        with prune(model, bench.METHOD) as trace:
            shown = self.setup(model, one, trace) if "trace" in asked else self.setup(model, one)
        if shown is None or isinstance(shown, str):
            return shown
        check = bench.prefill_is_right if isinstance(shown, torch.Tensor) else bench.text_is_right
        return check(trace, one, shown)

    def line(self, result: Result) -> str:
        """The row as it stands on the page."""
        return f"| {_cell(self.title)} | {result.outcome} | {_cell(result.says)} |"


@dataclass
class Group:
    """A table of the page. title: its heading. rows: in the order in which the setups are written."""

    title: str
    rows: list[Row] = field(default_factory=list)

    def works(self, title: str, setup: Setup | None = None) -> Callable[[Setup], Setup]:
        """Register a setup that must prune and be right: `setup`, or the function that this decorates."""
        return self._register(title, "works", setup)

    def refused(self, title: str, setup: Setup | None = None) -> Callable[[Setup], Setup]:
        """Register a setup that must raise a TrioError: `setup`, or the function that this decorates."""
        return self._register(title, "refused", setup)

    def _register(self, title: str, expected: Outcome, setup: Setup | None) -> Callable[[Setup], Setup]:
        def register(setup: Setup) -> Setup:
            self.rows.append(Row(self.title, title, expected, setup))
            return setup

        if setup is not None:
            register(setup)
        return register


def page(groups: Iterable[Group], result_of: Callable[[Row], Result]) -> str:
    """docs/reference/support.md, with a table for each group."""
    parts = [INTRODUCTION.rstrip()]
    for group in groups:
        lines = [row.line(result_of(row)) for row in group.rows]
        parts.append(
            "\n".join([f"## {group.title}", "", "| Setup | Outcome | What happens |", "|---|---|---|", *lines])
        )
    return "\n\n".join(parts) + "\n"


def not_portable(text: str) -> str | None:
    """The first part of a text that another machine would print differently."""
    found = re.search(NOT_PORTABLE, text)
    return found and found.group()


def _cell(text: str) -> str:
    return text.replace("|", r"\|")
