"""The facts that the checks share: rows of one setting, the meaning of cache bytes, and the tokens that really entered.

A cache has Σ over layers of tokens · 2 · kv_width · bytes of a number. So its size gives the average number of tokens
in a layer, text included. Papers write MB for 10⁶ or for 2²⁰ bytes. The reading with which more rows agree is used.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from trio_profile.cost.conventions import Convention, Prefill
from trio_profile.cost.printed import Interval, Printed
from trio_profile.inputs.claims.claims import (
    BYTES_BY_DTYPE,
    Claims,
    Model,
    Quantity,
    Row,
    Setting,
    Table,
    builtin,
    quantity,
    read,
)
from trio_profile.records.schema import Shape
from trio_profile.text import listed

_BINARY = {"kb": 1, "mb": 2, "gb": 3}
"""Powers of 1024 by the ending of a quantity whose unit may be binary."""


# How many questions a dataset has. POPE: 2910 + 3000 + 3000 in the files that LLaVA's evaluation uses.
_QUESTIONS = {"pope": 8910}


@dataclass(frozen=True)
class Figure:
    """A printed amount."""

    quantity: Quantity
    printed: Printed

    @property
    def text(self) -> str:
        """The figure with its unit, for sentences."""
        return f"{self.printed.text} {self.quantity.unit}"

    @property
    def amount(self) -> Interval:
        """The figure in FLOPs, MACs, seconds, bytes or joules."""
        return self.printed.allowed.times(self.quantity.scale)


@dataclass(frozen=True, eq=False)
class Line:
    """A row with its table and its paper. label: the name of its table. name: the row's own."""

    facts: "Facts"
    label: str
    table: Table
    name: str
    row: Row

    @property
    def place(self) -> str:
        """The name of the row in findings."""
        return f"{self.label}, {self.name}"

    @property
    def own(self) -> bool:
        """Whether the row is of the paper's own method."""
        return self.row.method == self.facts.claims.method.name

    @property
    def model(self) -> Model:
        """The sizes of the row's model."""
        return self.facts.claims.models[self.row.model]

    @cached_property
    def dense(self) -> "Line | None":
        """The dense row of the same table and model; None if there is none. Of a dense row it is the row itself."""
        if self.row.dense:
            return self
        return next((line for line in self.siblings if line.row.dense), None)

    @property
    def device(self) -> str | None:
        """The device of the row's times; None if it is not known."""
        return self.table.device or self.facts.device

    @property
    def samples(self) -> int | None:
        """How many samples its times are summed over: as the paper says it, or else all questions of its dataset."""
        return self.table.samples or _QUESTIONS.get((self.table.dataset or "").casefold())

    @property
    def siblings(self) -> "list[Line]":
        """All rows of the same table and model."""
        return self.facts.sweeps[self.label, self.row.model]

    def figure(self, base: str) -> Figure | None:
        """The row's printed amount of a base in any unit; None if it prints none. A TTFT may be a sum of parts."""
        for name, text in self.row.figures.items():
            if (meant := quantity(name)).base == base and meant.form == "amount":
                return Figure(meant, Printed.of(text))
        return self._ttft() if base == "ttft" else None

    def _ttft(self) -> Figure | None:
        """The tower, the selection if it is printed, and the decoder; None if they are not printed in one unit."""
        parts = {base: part for base in ("vision", "selection", "prefill") if (part := self.figure(base))}
        if not {"vision", "prefill"} <= parts.keys() or len({part.quantity.unit for part in parts.values()}) > 1:
            return None
        prints = [part.printed for part in parts.values()]
        text = f"({' + '.join(printed.text for printed in prints)})"
        value = sum((printed.value for printed in prints), Fraction(0))
        return Figure(parts["vision"].quantity, Printed(text, value, sum((p.last for p in prints), Fraction(0))))

    @cached_property
    def retention(self) -> Printed | None:
        """The share that the row states, with the most digits in which any row of the model prints it."""
        if self.row.retention is None:
            return None
        stated = Printed.of(self.row.retention)
        alike = [row for row in self.facts.claims.rows() if row.model == self.row.model]
        finer = [Printed.of(row.retention) for row in alike if row.retention]
        for count in {row.tokens for row in alike if row.tokens and not row.dense}:
            share = Printed.of(count).value / self.model.visual_tokens
            if stated.how(share) != "no":
                finer.append(Printed(self.row.retention, share, Fraction(1, self.model.visual_tokens)))
        agreeing = {f.value: f for f in finer if f.last <= stated.last and stated.names(f)}
        finest = min(agreeing.values(), key=lambda f: (f.last, f.value), default=stated)
        # If several finer prints contradict each other, the row's own is used.
        return finest if all(f.names(finest) for f in agreeing.values()) else stated

    # --- caches -------------------------------------------------------------------------------------------------

    @property
    def token_bytes(self) -> int:
        """Bytes of one token in the caches of all layers."""
        return self.model.layers * 2 * self.model.kv_width * BYTES_BY_DTYPE[self.table.dtype]

    @cached_property
    def held(self) -> Interval | None:
        """The average number of tokens in a layer of the row's cache, text included; None if it prints no cache."""
        return self.held_as(self.facts.reading)

    def held_as(self, reading: str) -> Interval | None:
        """As `held`, by a reading of MB."""
        figure = self.figure("kv")
        if figure is None:
            return None
        power = _BINARY.get(figure.quantity.name.rpartition("_")[2], 0) if reading == "MiB" else 0
        return figure.amount.times(Fraction(1024, 1000) ** power / self.token_bytes)

    @cached_property
    def text(self) -> tuple[Interval, str] | None:
        """Text tokens and who says so: stated, or those beyond the picture in a dense cache of the same dataset."""
        if self.row.text_tokens is not None:
            return Interval.at(self.row.text_tokens), ""
        known = [
            (line.row.model, line.held - Interval.at(line.model.visual_tokens))
            for line in self.facts.lines
            if line.row.dense and line.held is not None and line.held.value >= line.model.visual_tokens
            if _same_dataset(self.table, line.table)
        ]
        # Tokenizers differ, so a cache of the same model is preferred.
        known = [(model, beyond) for model, beyond in known if model == self.row.model] or known
        if not known or not all(beyond.meets(known[0][1]) for _, beyond in known):
            return None
        model, beyond = known[0]
        return beyond, f"{model}'s dense cache"

    @property
    def text_count(self) -> int:
        """Text tokens; 0 if they are unknown."""
        return 0 if self.text is None else round(self.text[0].value)

    @cached_property
    def entered(self) -> Interval | None:
        """Visual tokens that entered, by a dense row's cache: the model's number if it fits, else all but the text.

        None if no cache is printed, or if the number does not fit and the text is unknown.
        """
        if self.held is None:
            return None
        nominal = Interval.at(self.model.visual_tokens)
        if self.row.text_tokens is None and self.held.value >= nominal.value:
            return nominal
        if self.text is None:
            return None
        visual = self.held - self.text[0]
        return nominal if visual.meets(nominal) else visual

    @cached_property
    def kept(self) -> Interval | None:
        """The share of the entered visual tokens that a pruned row's cache contains."""
        entered = None if self.dense is None else self.dense.entered
        if self.held is None or self.text is None or entered is None or entered.low <= 0:
            return None
        return (self.held - self.text[0]) / entered

    @cached_property
    def nominal(self) -> bool:
        """Whether the dense cache of the row's table is too small for the model's visual tokens: some did not enter."""
        held = None if self.dense is None else self.dense.held_as("MiB")
        return held is not None and held.high < self.model.visual_tokens


@dataclass(frozen=True)
class Facts:
    """Claims with one reading of their caches.

    reading: `MiB` or `MB`, for a printed MB.
    device: on which the times were measured, for tables that name none.
    """

    claims: Claims
    reading: str
    device: str | None = None

    @classmethod
    def of(cls, claims: Claims, device: str | None = None) -> "Facts":
        """The facts with the reading under which more rows agree with their own retention or text."""
        return max((cls(claims, reading, device) for reading in ("MiB", "MB")), key=lambda facts: facts._agreeing())

    @cached_property
    def lines(self) -> list[Line]:
        """All rows."""
        tables = self.claims.tables.items()
        return [Line(self, label, table, *row) for label, table in tables for row in table.rows.items()]

    @cached_property
    def sweeps(self) -> dict[tuple[str, str], list[Line]]:
        """The rows of each table and model."""
        sweeps: dict[tuple[str, str], list[Line]] = {}
        for line in self.lines:
            sweeps.setdefault((line.label, line.row.model), []).append(line)
        return sweeps

    def pairs(self) -> Iterator[tuple[Line, Line]]:
        """Each pruned row after the dense row of its table and model."""
        return ((line.dense, line) for line in self.lines if not line.row.dense and line.dense is not None)

    def same_setting(self, a: Line, b: Line) -> bool:
        """Whether two rows have the same model, method, retention and, if both name one, dataset."""
        if (a.row.model, a.row.method) != (b.row.model, b.row.method) or not _same_dataset(a.table, b.table):
            return False
        return a.row.dense or self.same_share(a.row, b.row)

    def same_share(self, a: Setting, b: Setting) -> bool:
        """Whether two settings of one model state the same retention or the same number of tokens."""
        if a.tokens and b.tokens:
            return Printed.of(a.tokens).names(Printed.of(b.tokens))
        if a.retention and b.retention:
            return Printed.of(a.retention).names(Printed.of(b.retention))
        share, count = (a.retention, b.tokens) if a.retention else (b.retention, a.tokens)
        if share and count:
            return Printed.of(share).how(Printed.of(count).value / self.claims.models[a.model].visual_tokens) != "no"
        return not (a.tokens or b.tokens or a.retention or b.retention)

    def _agreeing(self) -> int:
        agreeing = 0
        for line in self.lines:
            if line.kept is not None and line.retention is not None and not line.row.dense:
                agreeing += line.kept.meets(line.retention.allowed)
            if line.row.dense and line.row.text_tokens is not None and line.held is not None:
                agreeing += line.held.meets(Interval.at(line.model.visual_tokens + line.row.text_tokens))
        return agreeing


def known_counts(shape: Shape) -> dict[int, list[str]]:
    """The numbers of visual tokens that the built-in claims have for decoders of these sizes, each with who counts so.

    A number is the paper's own, or the average that its dense KV cache has room for.
    """
    papers: dict[tuple[int, str], list[str]] = {}
    decoder = (shape.num_layers, shape.hidden, shape.intermediate)
    for claims in map(read, builtin()):
        models = {
            name: model
            for name, model in claims.models.items()
            if (model.layers, model.hidden, model.intermediate) == decoder
        }
        counts = [(model.visual_tokens, name) for name, model in models.items()]
        for line in Facts.of(claims).lines:
            entered = round(line.entered.value) if line.row.dense and line.entered is not None else None
            if line.row.model in models and entered not in (None, line.model.visual_tokens):
                counts.append((entered, f"the average in the dense cache of {line.row.model}"))
        for count in dict.fromkeys(counts):
            papers.setdefault(count, []).append(claims.label)
    sources: dict[int, list[str]] = {}
    for (tokens, name), labels in papers.items():
        sources.setdefault(tokens, []).append(f"{name} in {listed(labels)}")
    return sources


def shape(model: Model, text_tokens: int = 0) -> Shape:
    """A model's sizes as the formulas take them."""
    return Shape(
        **model.model_dump(include={"hidden", "intermediate", "heads", "visual_tokens", "ffn_matrices"}),
        num_layers=model.layers,
        query_width=model.query_width,
        kv_width=model.kv_width,
        vocabulary=model.vocab,
        itemsize=2,
        batch=1,
        text_tokens=text_tokens,
    )


def work(convention: Convention, model: Model, tokens: Sequence[Fraction | int], text_tokens: int = 0) -> Fraction:
    """The work of a prefill by a convention.

    tokens: visual tokens of each layer; fractions are allowed.
    """
    prefill = Prefill(shape(model, text_tokens), tokens)  # pyright: ignore[reportArgumentType]
    return Fraction(convention.value(prefill))


def layer_work(convention: Convention, model: Model, text_tokens: int) -> Callable[[Fraction], Fraction]:
    """One layer's work as a function of its visual tokens: a parabola through its values at 0, 1 and 2."""
    bare = convention.model_copy(update={"layers": "one", "head": "none", "tower": False, "overhead": False})
    at_0, at_1, at_2 = (work(bare, model, (n,), text_tokens) for n in (0, 1, 2))
    bend = (at_2 - 2 * at_1 + at_0) / 2
    slope = at_1 - at_0 - bend
    return lambda n: at_0 + (slope + bend * n) * n


def _same_dataset(a: Table, b: Table) -> bool:
    """Whether two tables are of one dataset, or one of them names none."""
    return not (a.dataset and b.dataset) or a.dataset.casefold() == b.dataset.casefold()
