"""docs/reference/methods.md: every pruning method, as its class declares it."""

from collections.abc import Sequence
from dataclasses import MISSING, fields
from inspect import cleandoc
from typing import Any

from documentation.docstrings import meanings, without_items
from documentation.tables import cell, table
from trio_core import methods
from trio_core.methods.combined import Combined
from trio_core.methods.method import Method, Reference, Stage, registry
from trio_core.methods.trio import Trio
from trio_profile import units
from trio_profile.inputs.catalogue import facts_of

TOP = """# Methods

`trio-profile methods --json` has each deliberate difference of a method from its paper or its code. [Your own
method](../tutorials/your-method.md) needs no fork. Five differences are the same in all methods:

- The [budget](../glossary.md#budget) is met exactly. Much released code rounds it in each crop, frame or block.
- Equal scores go to the lower index. Released code leaves their order open, or adds noise.
- Scores, cosines and means are computed in float32 or wider, not in the model's precision.
- Kept tokens keep their position ids, with gaps between them. Much released code renumbers them on LLaVA, as
  `positions=compact` does.
- Methods that look into the vision tower divide the budget over the crops of a picture. They drop the newline tokens of
  LLaVA-NeXT and LLaVA-OneVision, and see the tiles without their padding. Released code keeps the padding.

A [method](../glossary.md#method) acts before the decoder, between its layers, or at both places. It
[needs](../tutorials/your-method.md#signals) the signals that it reads besides the hidden states. The cost is the work
of all its [selections](../glossary.md#selection), as the method declares it, as a share of one dense decoder layer of
LLaVA-1.5-7B, with a third of the tokens kept. A [control](../glossary.md#control) is a rule of ours that methods are
compared with. It is never chosen.
"""
PLACES = {
    "Methods that act before the decoder": Stage.ENCODER,
    "Methods that act between the decoder's layers": Stage.DECODER,
    "Methods that act at both places": Stage.BOTH,
    "Controls": None,
}
"""The tables of the page, with the stage of the methods in each. None: controls of any stage."""
COMBINED = """
A `+` combines a method of the first table with one of the second: `visionzip+trio`. It has the options of both, and one
more. [Choose a method](../how-to/choose-a-method.md#combine-two-methods) explains its budgets and its options.
"""
"""What the page says about combinations."""


def page() -> str:
    """The text of the page."""
    classes = [methods.find(name) for name in methods.names() if methods.find(name).__module__.startswith("trio_core.")]
    parts = [TOP]
    for title, stage in PLACES.items():
        here = [cls for cls in classes if stage is _place(cls)]
        parts += [f"## {title}", table(["method", "what it does", "needs", "cost", "paper"], map(_row, here))]
    parts += ["## Two methods as one", COMBINED, _options(Combined, ["encoder_retention"])]
    parts += ["## Options of every method", _options(Method, Method.option_names())]
    parts.append("## Each method")
    return "\n\n".join([part.strip() for part in parts] + [_section(cls) for cls in classes]) + "\n"


def _place(cls: type[Method]) -> Stage | None:
    """The table that a method stands in: that of its stage, or None for a control."""
    return None if cls.reference.kind == "control" else cls.stage


def _row(cls: type[Method]) -> list[str]:
    """The row of a method in its table."""
    remark = cls.reference.remark
    return [
        _link(cls),
        cell(cls.summary()) + (f" *{cell(remark[0].upper() + remark[1:])}.*" if remark not in ("", "control") else ""),
        ", ".join(sorted(cls.needs)) or "–",
        units.percent(facts_of(cls).selection_share).replace(" ", "\u00a0"),
        paper(cls.reference),
    ]


def paper(reference: Reference) -> str:
    """A link to the paper on arXiv; a dash for a rule without one."""
    return f"[{reference.arxiv}](https://arxiv.org/abs/{reference.arxiv})" if reference.arxiv else "–"


def _section(cls: type[Method]) -> str:
    """The section of one method."""
    doc = without_items(cleandoc(cls.__doc__ or ""), cls.option_names()).removeprefix(cls.summary()).strip()
    parts = [f"### {cls.name}", f"`trio_core.{cls.__name__}`.{_source(cls)}"] + ([doc] if doc else [])
    own = [name for name in cls.option_names() if name not in Method.option_names()]
    model = _model(cls)
    other = [name for name in own if cls is model or _option(cls, name) != _option(model, name)]
    if other:
        parts.append(_options(cls, other))
    if len(other) < len(own):
        shared = ", ".join(f"`{name}`" for name in own if name not in other)
        parts.append(f"{'Other options' if other else 'Options'}, as in {_link(model)}: {shared}.")
    return "\n\n".join(parts)


def _model(cls: type[Method]) -> type[Method]:
    """The method whose section has the options that others share: the one that a method extends, or TRIO."""
    return next((parent for parent in cls.__mro__[1:] if parent in registry.values()), Trio)


def _link(cls: type[Method]) -> str:
    return f"[`{cls.name}`](#{cls.name})"


def _source(cls: type[Method]) -> str:
    """The rule of a control, and the code of a paper. The table has the paper. Each sentence begins with a space."""
    reference = cls.reference
    if cls is not Trio and reference.title == Trio.reference.title:
        return f" Code: that of {_link(Trio)}."
    text = f" Rule: {reference.title}." if reference.kind == "control" else ""
    if reference.repository:
        tree, commit = (f"/tree/{reference.commit}", f"@{reference.commit[:10]}") if reference.commit else ("", "")
        text += f" Code: [{reference.repository}{commit}](https://github.com/{reference.repository}{tree})."
    return text + (f" Its licence: {reference.licence}." if reference.licence else "")


def _options(cls: type[Method], names: Sequence[str]) -> str:
    """The list of some options of a class, each with its default."""
    rows = [_option(cls, name) for name in names]
    return "\n".join(f"- {option} ({default}): {meaning}" for option, meaning, default in rows)


def _option(cls: type[Method], name: str) -> list[str]:
    """An option, its meaning and its default; the last two are empty if the class does not have it."""
    by_name = {field.name: field for field in fields(cls)}
    described: dict[str, str] = {}
    for parent in reversed(cls.__mro__):
        described |= meanings(cleandoc(parent.__doc__ or ""), by_name)
    row = [f"`{name}`", cell(described.get(name, "")), _default(by_name[name]) if name in by_name else ""]
    model = _model(cls)
    if issubclass(cls, model) and cls is not model and row != (same := _option(model, name)) and row[1] == same[1]:
        row[1] = f"as in {_link(model)}."  # only the default is another
    return row


def _default(field: Any) -> str:
    """The default of an option, as Python writes it."""
    return "" if field.default is MISSING else f"`{field.default!r}`"
