"""What a paper claims, as records: its models, its method, and its tables of printed figures.

Every figure is kept as its printed text. docs/how-to/claims.md describes the file, and `reader` reads it.
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from trio_profile.judge.audit.printed import Printed
from trio_profile.records.schema import Record

Count = Annotated[int, Field(ge=1, le=10**7)]
Layer = Annotated[int, Field(ge=0, le=1000)]
Text = Annotated[str, Field(min_length=1)]
BYTES_BY_DTYPE = {"float32": 4, "float16": 2, "bfloat16": 2, "float8": 1, "int8": 1}
"""Bytes of one number in a cache."""


def positive(text: Any) -> str:
    """The text of a number above 0, checked. Raises ValueError for anything else."""
    if not isinstance(text, str):
        raise ValueError("needs a number")
    if Printed.of(text).value <= 0:
        raise ValueError(f"{text} is not above 0")
    return text


def share(text: Any) -> str:
    """The text of a share above 0 and up to 1, checked. Raises ValueError for anything else."""
    if Printed.of(positive(text)).value > 1:
        raise ValueError(f"{text} is more than 1; a share lies in (0, 1], a percentage in (0, 100]")
    return text


def _ascending(layers: tuple[int, ...]) -> tuple[int, ...]:
    if any(later <= earlier for earlier, later in pairwise(layers)):
        raise ValueError(f"{list(layers)} do not ascend")
    return layers


Digits = Annotated[str, BeforeValidator(positive)]
"""A printed number above 0, as its text."""
Share = Annotated[str, BeforeValidator(share)]
"""A printed share above 0 and up to 1, as its text."""
Layers = Annotated[tuple[Layer, ...], AfterValidator(_ascending)]
"""Layers after which tokens are removed, 1-based, ascending."""


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
    head_dim: Annotated[Count | None, Field(validate_default=True)] = None
    vocab: Annotated[int, Field(ge=0, le=10**7)] = 0
    visual_tokens: Count
    ffn_matrices: Annotated[int, Field(ge=2, le=3)] = 3

    @field_validator("kv_heads")
    @classmethod
    def _kv_heads_divide_heads(cls, kv_heads: int | None, info: ValidationInfo) -> int | None:
        heads = info.data.get("heads")
        if kv_heads and heads and heads % kv_heads:
            raise ValueError(f"{kv_heads} do not divide {heads} heads")
        return kv_heads

    @field_validator("head_dim")
    @classmethod
    def _head_dim_is_known(cls, head_dim: int | None, info: ValidationInfo) -> int | None:
        heads, hidden = info.data.get("heads"), info.data.get("hidden")
        if head_dim is None and heads and hidden and hidden % heads:
            raise ValueError(f"is needed, because {heads} heads do not divide hidden {hidden}")
        return head_dim

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
    encoder_keep, encoder_ratio: how many visual tokens enter the decoder, or which share.
    attention, warmup, repeats, samples: facts about a published script, which no check uses.
    """

    layers: Layers = ()
    keep: tuple[Annotated[int, Field(ge=0, le=10**7)], ...] = ()
    keep_ratio: tuple[Share, ...] = ()
    encoder_keep: Count | None = None
    encoder_ratio: Share | None = None
    attention: str | None = None
    warmup: Annotated[int, Field(ge=0)] | None = None
    repeats: Count | None = None
    samples: Count | None = None

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


class Published(Record):
    """A schedule that the authors publish.

    label: its name in the file.
    model: the model that the label begins with, if any.
    variant: the rest of the label.
    tokens, retention: the average that the label states.
    """

    label: str
    model: str | None
    variant: str
    tokens: Digits | None = None
    retention: Digits | None = None
    budgets: Budgets


class Method(Record):
    """The paper's own method.

    name: its name in the rows; by default the first word of the title.
    pruning_layers: by the beginning of a model's name.
    gamma: γ of F_ov, if it is printed.
    gamma_at_least: a lower bound of γ, if only a bound is printed.
    published_budgets: in the file also `public_repo_budgets`.
    k_pos, nms_threshold, with_encoder: further facts, which no check uses.
    """

    name: Text | None = None
    pruning_layers: dict[str, Layers] = Field(default_factory=dict)
    gamma: Digits | None = None
    gamma_at_least: Digits | None = None
    published_budgets: tuple[Published, ...] = ()
    k_pos: Count | None = None
    nms_threshold: Digits | None = None
    with_encoder: str | None = None


class Row(Record):
    """One row of a table.

    label: its name in the file.
    line: its line in the file.
    method: None for the dense model.
    retention: share of the visual tokens that is kept, averaged over layers.
    tokens: the printed average number of visual tokens.
    text_tokens: of the prompt.
    overhead: whether the selection costs work.
    figures: printed figures by quantity.
    break_even: the two retentions between which the break-even is said to lie.
    scores: by benchmark.
    schedule: the row's own, if printed.
    """

    label: str
    line: int
    model: str | None = None
    method: str | None = None
    retention: Digits | None = None
    tokens: Digits | None = None
    text_tokens: int | None = None
    overhead: bool = True
    figures: dict[str, Digits] = Field(default_factory=dict)
    break_even: tuple[Digits, Digits] | None = None
    scores: tuple[Digits, ...] = ()
    schedule: Budgets | None = None

    def printed(self, quantity: str) -> Printed | None:
        """The row's figure of a quantity; None if it prints none."""
        return Printed.of(self.figures[quantity]) if quantity in self.figures else None


class Table(Record):
    """One table or passage.

    where: its place in the paper.
    samples: the number of inputs that a time is summed over.
    dtype: of the cache.
    convention: how the paper says that it counts work, as a code of `trio-profile flops`.
    """

    name: str
    where: str | None = None
    dataset: str | None = None
    device: str | None = None
    samples: Count | None = None
    dtype: str = "float16"
    convention: str | None = None
    benchmarks: tuple[Text, ...] = ()
    rows: tuple[Row, ...] = ()

    def dense(self, model: str | None) -> Row | None:
        """The dense row of a model; None if the table has none."""
        return next((row for row in self.rows if row.method is None and row.model == model), None)


class Claims(Record):
    """A paper's claims.

    name: of the file.
    own: the name of the paper's own method in the rows.
    """

    name: str
    paper: str
    source: str | None = None
    models: dict[str, Model]
    method: Method
    own: str
    tables: tuple[Table, ...]

    def rows(self) -> Iterator[tuple[Table, Row]]:
        """All rows, each with its table."""
        return ((table, row) for table in self.tables for row in table.rows)

    def layers_of(self, model: str) -> tuple[int, ...]:
        """The method's pruning layers on a model; () if none are printed."""
        names = [start for start in self.method.pruning_layers if model.startswith(start)]
        return self.method.pruning_layers[max(names, key=len)] if names else ()


BUILTIN = Path(__file__).parents[2] / "data" / "claims"
"""The directory of the built-in claims."""
TEMPLATE = BUILTIN.parent / "template.yaml"
"""The file that `trio-profile audit --new` writes."""


def builtin() -> list[str]:
    """The names of the built-in claims."""
    return sorted(path.stem for path in BUILTIN.glob("*.yaml"))
