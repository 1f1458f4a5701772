"""The one form of a claims file: a paper's models, its method, and its tables of printed figures.

Every figure is kept as its printed text. docs/how-to/claims.md describes the form. A fault is reported with its line:
a "place" is the path of a value in the file, and the source knows its line.

The unit is part of the name of a quantity: `flops_t` is work in 10¹² FLOPs, `prefill_s` a time in seconds, `kv_mb`
bytes in MB (or MiB: the audit finds out). `prefill_speedup` and `kv_ratio` are dense over pruned; of a throughput,
pruned over dense. `flops_reduction_pct` is the saved share of the dense work, and `flops_of_dense_pct` the remaining
share.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from trio_profile.cost.conventions import find
from trio_profile.cost.printed import Printed
from trio_profile.errors import ClaimsError
from trio_profile.records import yaml_source as yaml
from trio_profile.records.decoders import known, widths
from trio_profile.records.schema import Record
from trio_profile.records.yaml_source import Place, Source

_MOST_ROWS = 1000
"""All rows are compared with each other, so the time of an audit grows with the square of their number."""

# --- the quantities that a paper may print --------------------------------------------------------------------------

Form = Literal["amount", "ratio", "reduction", "share", "plain"]

_UNITS: dict[str, dict[str, Fraction | int]] = {
    "FLOPs": {"MFLOPs": 10**6, "GFLOPs": 10**9, "TFLOPs": 10**12, "PFLOPs": 10**15},
    "MACs": {"MMACs": 10**6, "GMACs": 10**9, "TMACs": 10**12, "PMACs": 10**15},
    "time": {"ms": Fraction(1, 1000), "s": 1, "min": 60, "h": 3600},
    "bytes": {"kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    "energy": {"J": 1, "kJ": 1000, "Wh": 3600},
    "rate": {"/s": 1},
}
"""The units of each kind of amount, and their sizes in FLOPs, MACs, seconds, bytes or joules."""
_WORDS = {"flops": "FLOPs", "macs": "MACs", "kv": "KV cache", "ttft": "TTFT", "tpot": "TPOT"}
"""The words of a base that are not its name."""
_TIMES = ("total", "prefill", "decode", "ttft", "tpot", "forward", "proxy_loss", "backward", "selection", "latency")
_BASES = {"flops": "FLOPs", "macs": "MACs", "kv": "bytes", "memory": "bytes", "energy": "energy", "throughput": "rate"}
_BASES |= dict.fromkeys((*_TIMES, "vision", "generation"), "time")
_SAME = {"inference": "total", "overall": "total", "runtime": "total"}
"""Other names for a base."""
_ENDINGS: dict[str, tuple[Form, str, str]] = {
    "_speedup": ("ratio", "×", "speed-up"),
    "_ratio": ("ratio", "×", "ratio"),
    "_reduction_pct": ("reduction", "%", "saving"),
    "_of_dense_pct": ("share", "%", "of dense"),
}
_PLAIN = {
    "accuracy_kept_pct": "accuracy kept",
    "score": "score",
    "overhead_below_pct": "overhead below",
    "vision_of_ttft_pct": "share of the tower",
    "figure": "figure",
}
"""Quantities that are neither an amount nor a ratio. `overhead_below_pct` is an upper bound of (the method's total −
the total of a method that selects without looking) / the dense total."""


@dataclass(frozen=True)
class Quantity:
    """The meaning of a name.

    base: what is measured.
    form: an amount, a ratio, or a share.
    label, unit: for sentences.
    scale: one printed unit in FLOPs, MACs, seconds, bytes or joules.
    """

    name: str
    base: str
    form: Form
    label: str
    unit: str
    scale: Fraction = Fraction(1)


def _quantities() -> Iterator[Quantity]:
    for base, kind in _BASES.items():
        words = _WORDS.get(base, base.replace("_", " "))
        for unit, scale in _UNITS[kind].items():
            # A name ends with its unit in small letters; that of work leaves the kind out: `flops_t`.
            ending = unit.removesuffix(kind).casefold().replace("/s", "persecond")
            label = f"{words} time" if kind == "time" else words
            yield Quantity(f"{base}_{ending}", base, "amount", label, unit, Fraction(scale))
        for ending, (form, unit, suffix) in _ENDINGS.items():
            for name in (base, *(other for other, same in _SAME.items() if same == base)):
                yield Quantity(f"{name}{ending}", base, form, f"{words} {suffix}", unit)
    for name, label in _PLAIN.items():
        yield Quantity(name, name, "plain", label, "%" if name.endswith("_pct") else "")


QUANTITIES = {quantity.name: quantity for quantity in _quantities()}


def quantity(name: str) -> Quantity:
    """The quantity of this name. Raises ValueError with the nearest names."""
    if name in QUANTITIES:
        return QUANTITIES[name]
    near = get_close_matches(name, QUANTITIES, n=3, cutoff=0.5)
    raise ValueError(f"no known quantity; the nearest are {', '.join(near or ('flops_t', 'prefill_s', 'kv_mb'))}")


# --- the parts of a file --------------------------------------------------------------------------------------------

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
    """A paper's claims. label: the name of the file. models: those that it names, built-in ones with their sizes."""

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


# --- reading ----------------------------------------------------------------------------------------------------------


def read(claims: str) -> Claims:
    """The claims of this name: built-in ones, or a file.

    Raises ClaimsError with the file, the line, the field, what is wrong and what it may be.
    """
    path = BUILTIN / f"{claims}.yaml" if claims in builtin() else Path(claims)
    if path.suffix not in (".yaml", ".yml") and not yaml.exists(path):
        raise ClaimsError(f"claims {claims[:80]!r} are not built in ({', '.join(builtin())}), and no such file is here")
    return of_source(yaml.read(path), path.stem)


def of_source(source: Source, name: str) -> Claims:
    """The claims of a parsed file. Raises ClaimsError as `read` does."""
    tree, stated = source.tree, {}
    if isinstance(tree, dict):
        stated = tree.get("models", {})
        tree = {**tree, "label": name, "models": _with_sizes(stated) if isinstance(stated, dict) else stated}
    claims = source.record(Claims, tree)
    for model_name, layers in claims.method.pruning_layers.items():
        place = ("method", "pruning_layers", model_name)
        _check_layers(source, place, layers, _model(source, place, claims, model_name))
    for label, budgets in claims.method.published_budgets.items():
        place = ("method", "published_budgets", label)
        _check_budgets(source, place, budgets, _check_setting(source, place, claims, budgets))
    for label, table in claims.tables.items():
        for row_name, row in table.rows.items():
            _check_row(source, ("tables", label, "rows", row_name), claims, table, row)
    if sum(1 for _ in claims.rows()) > _MOST_ROWS:
        source.refuse(("tables",), f"hold more than {_MOST_ROWS} rows; audit a paper at a time")
    settings = (*claims.rows(), *claims.method.published_budgets.values())
    named = {*stated, *claims.method.pruning_layers, *(setting.model for setting in settings)}
    return claims.model_copy(update={"models": {name: claims.models[name] for name in claims.models if name in named}})


def _with_sizes(stated: dict[str, Any]) -> dict[str, Any]:
    """The models of a file, and all built-in ones. A built-in model has its own sizes where the file says none."""
    models = dict(stated)
    for name, facts in known().items():
        if isinstance(fields := stated.get(name, {}), dict):
            models[name] = _sizes(**facts) | fields
    return models


def _sizes(config: dict[str, Any], visual_tokens: int, **_: Any) -> dict[str, int]:
    """The fields of a built-in Model."""
    decoder = widths(config)
    head_dim = decoder["query_width"] // decoder["heads"]
    more = {"layers": decoder["num_layers"], "kv_heads": decoder["kv_width"] // head_dim, "head_dim": head_dim}
    more |= {"vocab": decoder["vocabulary"], "visual_tokens": visual_tokens}
    return more | {name: decoder[name] for name in ("hidden", "intermediate", "heads", "ffn_matrices")}


def _check_row(source: Source, place: Place, claims: Claims, table: Table, row: Row) -> None:
    """Refuse a row without figures, and one whose figures its model or its table cannot have."""
    model = _check_setting(source, place, claims, row)
    if row.schedule is not None:
        _check_budgets(source, (*place, "schedule"), row.schedule, model)
    if not (row.figures or row.scores or row.break_even or (row.schedule and (row.tokens or row.retention))):
        source.refuse(place, "holds no figure")
    if row.scores and len(row.scores) != len(table.benchmarks):
        source.refuse((*place, "scores"), f"{len(row.scores)} scores for {len(table.benchmarks)} benchmarks")


def _check_setting(source: Source, place: Place, claims: Claims, setting: Setting) -> Model:
    """The model of a setting. Refuses an unknown one, and more tokens than it has."""
    model = _model(source, (*place, "model"), claims, setting.model)
    if setting.tokens and Printed.of(setting.tokens).value > model.visual_tokens:
        source.refuse((*place, "tokens"), f"{setting.tokens} of {model.visual_tokens} visual tokens")
    return model


def _model(source: Source, place: Place, claims: Claims, name: str) -> Model:
    if name not in claims.models:
        source.refuse(place, f"{name!r} is none of {', '.join(claims.models)}")
    return claims.models[name]


def _check_layers(source: Source, place: Place, layers: tuple[int, ...], model: Model) -> None:
    if layers and layers[-1] >= model.layers:
        source.refuse(place, f"{layers[-1]} is not inside the decoder of {model.layers} layers")


def _check_budgets(source: Source, place: Place, budgets: Budgets, model: Model) -> None:
    """Refuse layers outside of the decoder, and budgets that grow."""
    _check_layers(source, (*place, "layers"), budgets.layers, model)
    tokens = (model.visual_tokens, *budgets.tokens_by_layer(model))
    if any(later > earlier for earlier, later in pairwise(tokens)):
        limit = f"no stage may hold more than the one before it, or {model.visual_tokens}"
        source.refuse((*place, "keep"), limit)
