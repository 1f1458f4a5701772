"""What the checks share: rows of one setting, the meaning of cache bytes, and the number of tokens that really entered.

A cache has Σ over layers of tokens · 2 · kv_width · bytes of a number. So its size gives the average number of tokens
in a layer, text included. Papers write MB for 10⁶ or for 2²⁰ bytes. The reading with which more rows agree is used.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from trio_profile.judge.audit.claims import BYTES_BY_DTYPE, Claims, Model, Row, Table
from trio_profile.judge.audit.printed import Interval, Printed
from trio_profile.judge.audit.quantities import Quantity, quantity
from trio_profile.cost.conventions import Convention, Prefill
from trio_profile.cost.formula import layer_macs
from trio_profile.records.schema import Shape

READINGS = {"MiB": Fraction(2**20, 10**6), "MB": Fraction(1)}
"""The possible sizes of a printed MB, in 10⁶ bytes."""
_BINARY = {"kb": 1, "mb": 2, "gb": 3}


@dataclass(frozen=True)
class Facts:
    """Claims with one reading of their caches.

    reading: `MiB` or `MB`.
    """

    claims: Claims
    reading: str
    conventions: dict[tuple[str, str, str], list[Convention]] = field(default_factory=dict, compare=False)
    """A cache of `dense_work.conventions`."""

    @classmethod
    def of(cls, claims: Claims) -> "Facts":
        """The facts with the reading under which more rows agree with their own retention or text."""
        return max((cls(claims, reading) for reading in READINGS), key=lambda facts: facts._agreeing())

    # --- figures ------------------------------------------------------------------------------------------------

    def amount(self, row: Row | None, base: str) -> tuple[Quantity, Printed] | None:
        """A row's printed amount of a base in any unit; None if it prints none."""
        for name in row.figures if row is not None else ():
            found = quantity(name)
            if found.base == base and found.form == "amount" and row is not None:
                return found, Printed.of(row.figures[name])
        return None

    def model(self, row: Row) -> Model | None:
        """The sizes of a row's model; None if it names none."""
        return self.claims.models[row.model] if row.model else None

    def pairs(self) -> Iterator[tuple[Table, Row, Row]]:
        """Each pruned row with the dense row of its table and model."""
        for table, row in self.claims.rows():
            if row.method is not None and (dense := table.dense(row.model)) is not None:
                yield table, dense, row

    # --- settings -----------------------------------------------------------------------------------------------

    def same_setting(self, first: tuple[Table, Row], second: tuple[Table, Row]) -> bool:
        """Whether two rows have the same model, method, retention and, if both name one, dataset."""
        (table, a), (other, b) = first, second
        if (a.model, a.method) != (b.model, b.method):
            return False
        if table.dataset and other.dataset and table.dataset.casefold() != other.dataset.casefold():
            return False
        return a.method is None or self.same_share(a, b)

    def same_share(self, a: Row, b: Row) -> bool:
        """Whether two rows of one model state the same retention or the same number of tokens."""
        if a.tokens and b.tokens:
            return Printed.of(a.tokens).names(Printed.of(b.tokens))
        if a.retention and b.retention:
            return Printed.of(a.retention).names(Printed.of(b.retention))
        share, count = (a.retention, b.tokens) if a.retention else (b.retention, a.tokens)
        model = self.model(a)
        if share and count and model:
            return Printed.of(share).how(Printed.of(count).value / model.visual_tokens) != "no"
        return not (a.tokens or b.tokens or a.retention or b.retention)

    def retention(self, row: Row) -> Printed | None:
        """The share that a row states, with the most digits in which any row of the model prints it."""
        model = self.model(row)
        if row.retention is None:
            return None
        stated = Printed.of(row.retention)
        alike = [other for _, other in self.claims.rows() if other.model == row.model]
        finer = [Printed.of(text) for text in {other.retention for other in alike if other.retention}]
        if model is not None:
            for count in {other.tokens for other in alike if other.tokens and other.method}:
                share = Printed.of(count).value / model.visual_tokens
                if stated.how(share) != "no":
                    finer.append(Printed(row.retention, share, Fraction(1, model.visual_tokens)))
        agreeing = {f.value: f for f in finer if f.last <= stated.last and stated.names(f)}
        finest = min(agreeing.values(), key=lambda f: (f.last, f.value), default=stated)
        # If several finer prints contradict each other, the row's own is used.
        return finest if all(f.names(finest) for f in agreeing.values()) else stated

    # --- caches -------------------------------------------------------------------------------------------------

    def token_bytes(self, table: Table, model: Model) -> int:
        """Bytes of one token in the caches of all layers."""
        return model.layers * 2 * model.kv_width * BYTES_BY_DTYPE[table.dtype]

    def cache_bytes(self, row: Row) -> tuple[Printed, Interval, Fraction] | None:
        """A row's cache as printed, the interval of its bytes, and the bytes by its digits. None if it prints none."""
        found = self.amount(row, "kv")
        if found is None:
            return None
        meant, printed = found
        scale = meant.scale
        ending = meant.name.rpartition("_")[2]
        if ending in _BINARY and self.reading == "MiB":
            scale *= Fraction(1024, 1000) ** _BINARY[ending]
        return printed, printed.allowed.times(scale), printed.value * scale

    def cached_tokens(self, table: Table, row: Row) -> tuple[Interval, Fraction] | None:
        """The average number of tokens in a layer's cache, text included: the interval and the value by the digits."""
        model, found = self.model(row), self.cache_bytes(row)
        if model is None or found is None:
            return None
        each = Fraction(1, self.token_bytes(table, model))
        return found[1].times(each), found[2] * each

    def text(self, table: Table, row: Row) -> tuple[Interval, Fraction, str] | None:
        """Text tokens of a row: stated, or the tokens beyond the visual ones in a dense cache of the same dataset."""
        if row.text_tokens is not None:
            return Interval.at(row.text_tokens), Fraction(row.text_tokens), "stated"
        known = [
            (dense.model == row.model, (interval, value, f"{dense.model}'s dense cache"))
            for other, dense, interval, value in self._beyond_the_picture
            if not (table.dataset and other.dataset) or table.dataset.casefold() == other.dataset.casefold()
        ]
        # Tokenizers differ, so a cache of the same model is preferred.
        found = [one for own, one in known if own] or [one for _, one in known]
        if not found or not all(one[0].meets(found[0][0]) for one in found):
            return None
        return found[0]

    def text_count(self, table: Table, row: Row) -> int:
        """Text tokens of a row; 0 if they are unknown."""
        found = self.text(table, row)
        return 0 if found is None else round(found[1])

    def entered(self, table: Table, dense: Row) -> tuple[Interval, Fraction] | None:
        """Visual tokens that entered, by a dense row's cache: the model's number if it fits, else all but the text.

        None if no cache is printed, or if the number does not fit and the text is unknown.
        """
        model, cached = self.model(dense), self.cached_tokens(table, dense)
        if model is None or cached is None:
            return None
        if dense.text_tokens is None and cached[1] >= model.visual_tokens:
            return Interval.at(model.visual_tokens), Fraction(model.visual_tokens)
        text = self.text(table, dense)
        if text is None:
            return None
        visual = cached[0] - text[0]
        if visual.meets(Interval.at(model.visual_tokens)):
            return Interval.at(model.visual_tokens), Fraction(model.visual_tokens)
        return visual, cached[1] - text[1]

    def kept(self, table: Table, dense: Row, row: Row) -> tuple[Interval, Fraction] | None:
        """The share of the entered visual tokens that a pruned row's cache contains."""
        cached, text, entered = self.cached_tokens(table, row), self.text(table, row), self.entered(table, dense)
        if cached is None or text is None or entered is None or entered[0].low <= 0:
            return None
        return (cached[0] - text[0]) / entered[0], (cached[1] - text[1]) / entered[1]

    def nominal(self, table: Table, dense: Row) -> bool:
        """Whether a dense cache is too small for the model's visual tokens, so that some did not enter."""
        model, cached = self.model(dense), Facts(self.claims, "MiB").cached_tokens(table, dense)
        return model is not None and cached is not None and cached[0].high < model.visual_tokens

    @cached_property
    def _beyond_the_picture(self) -> list[tuple[Table, Row, Interval, Fraction]]:
        """The tokens of each dense cache beyond its model's visual tokens, if the cache is large enough for those."""
        found: list[tuple[Table, Row, Interval, Fraction]] = []
        for table, row in self.claims.rows():
            model, cached = self.model(row), self.cached_tokens(table, row)
            if row.method is None and model is not None and cached is not None and cached[1] >= model.visual_tokens:
                visual = Interval.at(model.visual_tokens)
                found.append((table, row, cached[0] - visual, cached[1] - visual.low))
        return found

    def _agreeing(self) -> int:
        agreeing = 0
        for table, dense, row in self.pairs():
            kept, retention = self.kept(table, dense, row), self.retention(row)
            agreeing += kept is not None and retention is not None and kept[0].meets(retention.allowed)
        for table, row in self.claims.rows():
            model, cached = self.model(row), self.cached_tokens(table, row)
            if row.method is None and row.text_tokens is not None and model is not None and cached is not None:
                agreeing += cached[0].meets(Interval.at(model.visual_tokens + row.text_tokens))
        return agreeing


def shape(model: Model, text_tokens: int = 0) -> Shape:
    """A model's sizes as the formulas take them."""
    return Shape(
        num_layers=model.layers,
        hidden=model.hidden,
        intermediate=model.intermediate,
        query_width=model.query_width,
        kv_width=model.kv_width,
        heads=model.heads,
        vocabulary=model.vocab,
        ffn_matrices=model.ffn_matrices,
        itemsize=2,
        batch=1,
        visual_tokens=model.visual_tokens,
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
    return _parabola([work(bare, model, (n,), text_tokens) for n in (0, 1, 2)])


def least_layer_work(model: Model, text_tokens: int) -> Callable[[Fraction], Fraction]:
    """The least FLOPs of one layer as a function of its visual tokens: its products, with causal attention halved."""
    widths = shape(model)
    return _parabola([Fraction(2 * layer_macs(n + text_tokens, widths, causal="half")) for n in (0, 1, 2)])


def _parabola(at: Sequence[Fraction]) -> Callable[[Fraction], Fraction]:
    bend = (at[2] - 2 * at[1] + at[0]) / 2
    slope = at[1] - at[0] - bend
    return lambda n: at[0] + (slope + bend * n) * n
