"""The one form of a claims file: a paper's models, its method, and its tables of printed figures.

Every figure is kept as its printed text. docs/how-to/claims.md describes the form, and `reader` reads it.
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from trio_profile.cost.conventions import find
from trio_profile.cost.printed import Printed
from trio_profile.inputs.claims.quantities import quantity
from trio_profile.records.schema import Record

Dtype = Literal["float32", "float16", "bfloat16", "float8", "int8"]
BYTES_BY_DTYPE: dict[Dtype, int] = {"float32": 4, "float16": 2, "bfloat16": 2, "float8": 1, "int8": 1}
"""Bytes of one number in a cache."""
DENSE = "dense"
"""The method of a row without pruning."""


def _positive(text: Any) -> str:
    """The text of a number above 0. Raises ValueError for anything else."""
    if not isinstance(text, str):
        raise ValueError("needs a number")
    if Printed.of(text).value <= 0:
        raise ValueError(f"{text} is not above 0")
    return text


def _share(text: str) -> str:
    if Printed.of(text).value > 1:
        raise ValueError(f"{text} is more than 1; a share lies in (0, 1]")
    return text


def _ascending(layers: tuple[int, ...]) -> tuple[int, ...]:
    if any(later <= earlier for earlier, later in pairwise(layers)):
        raise ValueError(f"{list(layers)} do not ascend")
    return layers


def _lower_first(ends: tuple[str, str]) -> tuple[str, str]:
    if Printed.of(ends[0]).value > Printed.of(ends[1]).value:
        raise ValueError("takes two retentions, the lower one first")
    return ends


Count = Annotated[int, Field(ge=1, le=10**7)]
Tokens = Annotated[int, Field(ge=0, le=10**7)]
Text = Annotated[str, Field(min_length=1)]
Name = Annotated[Text, AfterValidator(str.casefold)]
"""The name of a method. Capitals do not count."""
Digits = Annotated[str, BeforeValidator(_positive)]
"""A printed number above 0, as its text."""
Share = Annotated[Digits, AfterValidator(_share)]
"""A printed share above 0 and up to 1, as its text."""
Layers = Annotated[tuple[Annotated[int, Field(ge=0, le=1000)], ...], AfterValidator(_ascending)]
"""Layers after which tokens are removed, 1-based, ascending."""
QuantityName = Annotated[str, AfterValidator(lambda name: quantity(name).name)]


class Model(Record):
    """The sizes of a decoder.

    layers: number of layers.
    hidden: width of the residual stream.
    intermediate: width of the FFN.
    heads: number of query heads.
    kv_heads: number of key heads; by default as many as query heads.
    head_dim: width of a head; by default hidden / heads.
    vocab: width of the logits. With 0, conventions that include the head are not tried.
    visual_tokens: number of tokens of a picture, as the paper says it.
    ffn_matrices: 3 for a gated FFN, else 2.
    """

    layers: Annotated[int, Field(ge=1, le=1000)]
    hidden: Count
    intermediate: Count
    heads: Count
    kv_heads: Count | None = None
    head_dim: Count | None = None
    vocab: Tokens = 0
    visual_tokens: Count
    ffn_matrices: Annotated[int, Field(ge=2, le=3)] = 3

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.heads % (self.kv_heads or self.heads):
            raise ValueError(f"kv_heads: {self.kv_heads} do not divide {self.heads} heads")
        if self.head_dim is None and self.hidden % self.heads:
            raise ValueError(f"head_dim: is needed, because {self.heads} heads do not divide hidden {self.hidden}")
        return self

    @property
    def query_width(self) -> int:
        """Width of all query heads together."""
        return self.heads * (self.head_dim or self.hidden // self.heads)

    @property
    def kv_width(self) -> int:
        """Width of all key heads together."""
        return (self.kv_heads or self.heads) * (self.head_dim or self.hidden // self.heads)


class Budgets(Record):
    """A schedule.

    layers: layers after which tokens are removed, 1-based.
    keep: how many visual tokens stay after each of them.
    keep_ratio: the share of the tokens before it that stays after each of them, in place of `keep`.
    encoder_keep, encoder_ratio: how many visual tokens enter the decoder (a mean may be a fraction), or which share.
    """

    layers: Layers = ()
    keep: tuple[Tokens, ...] = ()
    keep_ratio: tuple[Share, ...] = ()
    encoder_keep: Digits | None = None
    encoder_ratio: Share | None = None

    @model_validator(mode="after")
    def _one_budget_a_layer(self) -> Self:
        budgets = len(self.keep) + len(self.keep_ratio)
        if len(self.layers) != budgets:
            raise ValueError(f"{len(self.layers)} layers, but budgets for {budgets}")
        return self

    def tokens_by_layer(self, model: Model) -> list[Fraction]:
        """The number of visual tokens that each decoder layer runs on. Shares may give fractions of a token."""
        now = Fraction(self.encoder_keep or model.visual_tokens)
        if self.encoder_ratio is not None:
            now *= Printed.of(self.encoder_ratio).value
        tokens = [now] * model.layers
        for i, layer in enumerate(self.layers):
            now = Fraction(self.keep[i]) if self.keep else now * Printed.of(self.keep_ratio[i]).value
            tokens[layer:] = [now] * (model.layers - layer)
        return tokens


class Setting(Record):
    """The model and the retention of a printed figure.

    retention: share of the visual tokens that is kept, averaged over layers.
    tokens: the printed average number of visual tokens.
    """

    model: Text
    retention: Share | None = None
    tokens: Digits | None = None


class Published(Setting, Budgets):
    """A schedule that the authors publish. variant: how it differs from the paper's method, if it does."""

    variant: str = ""


class Method(Record):
    """The paper's own method.

    name: its name in the rows.
    pruning_layers: by model.
    gamma: γ of F_ov, if it is printed.
    gamma_at_least: a lower bound of γ, if only a bound is printed.
    """

    name: Name
    pruning_layers: dict[str, Layers] = Field(default_factory=dict)
    gamma: Digits | None = None
    gamma_at_least: Digits | None = None
    published_budgets: dict[str, Published] = Field(default_factory=dict)


class Row(Setting):
    """One row of a table.

    method: `dense` is the model without pruning.
    text_tokens: of the prompt.
    overhead: whether the selection costs work.
    schedule: the row's own, if printed.
    figures: printed figures by quantity.
    break_even: the two retentions between which the break-even is said to lie.
    scores: by benchmark.
    """

    method: Name
    text_tokens: Tokens | None = None
    overhead: bool = True
    schedule: Budgets | None = None
    figures: dict[QuantityName, Digits] = Field(default_factory=dict)
    break_even: Annotated[tuple[Share, Share], AfterValidator(_lower_first)] | None = None
    scores: tuple[Digits, ...] = ()

    @property
    def dense(self) -> bool:
        """Whether the row is of the model without pruning."""
        return self.method == DENSE

    def printed(self, quantity: str) -> Printed | None:
        """The row's figure of a quantity; None if it prints none."""
        return Printed.of(self.figures[quantity]) if quantity in self.figures else None


class Table(Record):
    """One table or passage.

    where: its place in the paper.
    checked: whether the figures were read at their source. False for figures from a digest.
    samples: the number of inputs that a time is summed over.
    dtype: of the cache.
    convention: how the paper says that it counts work, as a code of `trio-profile flops`.
    """

    where: str | None = None
    checked: bool = True
    dataset: str | None = None
    device: str | None = None
    samples: Count | None = None
    dtype: Dtype = "float16"
    convention: Annotated[str, AfterValidator(lambda code: find(code).code)] | None = None
    benchmarks: tuple[Text, ...] = ()
    rows: Annotated[dict[str, Row], Field(min_length=1)]


class Claims(Record):
    """A paper's claims. label: the name of the file."""

    label: str
    paper: Text
    source: Text | None = None
    models: Annotated[dict[str, Model], Field(min_length=1)]
    method: Method
    tables: Annotated[dict[str, Table], Field(min_length=1)]

    def rows(self) -> Iterator[Row]:
        """All rows of all tables."""
        return (row for table in self.tables.values() for row in table.rows.values())

    def layers_of(self, row: Row) -> tuple[int, ...]:
        """The layers after which the paper's own method prunes a row; () for other methods, or if none are printed."""
        return self.method.pruning_layers.get(row.model, ()) if row.method == self.method.name else ()


BUILTIN = Path(__file__).parents[2] / "data" / "claims"
"""The directory of the built-in claims."""
TEMPLATE = BUILTIN.parent / "template.yaml"
"""The file that `trio-profile audit --new` writes."""


def builtin() -> list[str]:
    """The names of the built-in claims."""
    return sorted(path.stem for path in BUILTIN.glob("*.yaml"))
