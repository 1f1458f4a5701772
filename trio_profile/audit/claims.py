"""What a paper claims, as data: the models, the method, and its tables of printed figures, each with its text.

docs/claims.md has the format, `claims_file.py` reads it.
"""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from trio_profile.audit.printed import Printed
from trio_profile.records.schema import Record

Count = Annotated[int, Field(ge=1, le=10**7)]
Layer = Annotated[int, Field(ge=0, le=1000)]
Text = Annotated[str, Field(min_length=1)]


def _number(text: str) -> str:
    if Printed.of(text).value <= 0:
        raise ValueError(f"{text} is not above 0")
    return text


Digits = Annotated[str, AfterValidator(_number)]
"""A printed number above 0, as its text."""


class Model(Record):
    """The decoder's sizes. visual_tokens: what a picture is said to become. kv_heads: as many as heads if not said.

    head_dim: hidden / heads if not said. ffn_matrices: 3 with a gate. vocab: 0 leaves conventions with a head untried.
    """

    layers: Annotated[int, Field(ge=1, le=1000)]
    hidden: Count
    intermediate: Count
    heads: Count
    kv_heads: Count | None = None
    head_dim: Count | None = None
    vocab: Annotated[int, Field(ge=0, le=10**7)] = 0
    visual_tokens: Count
    ffn_matrices: Annotated[int, Field(ge=2, le=3)] = 3

    @property
    def query_width(self) -> int:
        """Of all heads together."""
        return self.heads * (self.head_dim or self.hidden // self.heads)

    @property
    def kv_width(self) -> int:
        """Of all key heads together."""
        return (self.kv_heads or self.heads) * (self.head_dim or self.hidden // self.heads)


class Budgets(Record):
    """A schedule: after layer `layers[i]` (1-based) there are `keep[i]` visual tokens, or that share of those before.

    encoder_keep, encoder_ratio: what enters the decoder. The other fields are facts about a script, kept and not used.
    """

    layers: tuple[Layer, ...] = ()
    keep: tuple[Annotated[int, Field(ge=0, le=10**7)], ...] = ()
    keep_ratio: tuple[Digits, ...] = ()
    encoder_keep: Count | None = None
    encoder_ratio: Digits | None = None
    attention: str | None = None
    warmup: Annotated[int, Field(ge=0)] | None = None
    repeats: Count | None = None
    samples: Count | None = None

    def tokens_by_layer(self, model: Model) -> list[Fraction]:
        """Visual tokens that each decoder layer runs on; shares may leave parts of one."""
        now = Fraction(self.encoder_keep or model.visual_tokens)
        if self.encoder_ratio is not None:
            now *= Printed.of(self.encoder_ratio).value
        tokens = [now] * model.layers
        for i, layer in enumerate(self.layers):
            now = Fraction(self.keep[i]) if self.keep else now * Printed.of(self.keep_ratio[i]).value
            tokens[layer:] = [now] * (model.layers - layer)
        return tokens


class Published(Record):
    """A schedule that the authors publish, by a label: a model's name, a variant or none, and the average it makes."""

    label: str
    model: str | None
    variant: str
    tokens: Digits | None = None
    retention: Digits | None = None
    budgets: Budgets


class Method(Record):
    """The paper's own method. name: as its rows are labelled; the title's first word if not said.

    pruning_layers: by the beginning of a model's name. gamma: of F_ov, if printed; gamma_at_least: if only a bound is.
    published_budgets: in a file also public_repo_budgets.
    """

    name: Text | None = None
    pruning_layers: dict[str, tuple[Layer, ...]] = Field(default_factory=dict)
    gamma: Digits | None = None
    gamma_at_least: Digits | None = None
    published_budgets: tuple[Published, ...] = ()
    k_pos: Count | None = None
    nms_threshold: Digits | None = None
    with_encoder: str | None = None


class Row(Record):
    """One line of a table. method: None is the dense model. retention: of visual tokens, averaged over layers.

    figures: by quantity. tokens: the average that is printed. overhead: whether choosing costs work. scores: by
    benchmark. schedule: the row's own, if printed. line: in the file.
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
        """A figure of this row."""
        return Printed.of(self.figures[quantity]) if quantity in self.figures else None


class Table(Record):
    """One table or passage. baseline: the label of its dense row. samples: how many inputs a time is summed over.

    convention: that the paper says it counts work by, as a code of `trio-profile flops`. dtype: of the cache.
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
        """The dense row of a model."""
        return next((row for row in self.rows if row.method is None and row.model == model), None)


class Claims(Record):
    """A paper's claims. name: how the file is called. own: the paper's own method, as rows name it."""

    name: str
    paper: str
    source: str | None = None
    models: dict[str, Model]
    method: Method
    own: str
    tables: tuple[Table, ...]

    def rows(self) -> Iterator[tuple[Table, Row]]:
        """All rows with their tables."""
        return ((table, row) for table in self.tables for row in table.rows)

    def layers_of(self, model: str) -> tuple[int, ...]:
        """The method's pruning layers on a model; () where none are printed."""
        names = [start for start in self.method.pruning_layers if model.startswith(start)]
        return self.method.pruning_layers[max(names, key=len)] if names else ()


BUILTIN = Path(__file__).parent.parent / "data" / "claims"
"""Where the claims that ship with the package are."""
TEMPLATE = BUILTIN.parent / "template.yaml"
"""What `trio-profile audit --new` writes."""


def builtin() -> list[str]:
    """Names of the claims that ship with the package."""
    return sorted(path.stem for path in BUILTIN.glob("*.yaml"))
