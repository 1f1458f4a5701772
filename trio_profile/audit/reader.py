"""Reading a file of claims: every field checked, and what is wrong with one named by its line."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from trio_profile.audit import source as yaml
from trio_profile.audit.claims import BUILTIN, Budgets, Claims, Method, Model, Published, Row, Table, builtin
from trio_profile.audit.fields import Fields, of_percent
from trio_profile.audit.printed import Printed
from trio_profile.audit.quantities import PLAIN
from trio_profile.audit.source import Path_, Source
from trio_profile.cost.conventions import find
from trio_profile.errors import ClaimsError, StudyError
from trio_profile.records.schema import Record

_Kind = TypeVar("_Kind", bound=Record)

_TOP = ("paper", "source", "models", "method", "tables")
_TABLE = (
    *("where", "model", "retention", "retention_pct", "tokens", "text_tokens", "dataset", "device", "samples", "dtype"),
    *("convention", "quantity", "baseline", "benchmarks", "rows", "claims", "passage", "note"),
)
_ROW = (
    *("model", "method", "retention", "retention_pct", "tokens", "text_tokens", "overhead", "layers", "keep"),
    *("keep_ratio", "encoder_keep", "encoder_ratio", "printed", "scores", "break_even", "note"),
)
_BUDGETS = ("layers", "keep", "keep_ratio", "encoder_keep", "encoder_ratio")
_DENSE = ("baseline", "dense", "vanilla", "upper bound", "no pruning")
_NO_CHOICE = ("grid", "random", "uniform", "stride")
"""Methods that choose without looking: their choice costs no work that a formula counts."""
_MOST_ROWS = 1000
"""Rows are held against each other, so that what an audit takes grows with their square."""
DTYPES = {"float32": 4, "float16": 2, "bfloat16": 2, "float8": 1, "int8": 1}
"""Bytes of a number in a cache."""


def read(claims: str) -> Claims:
    """The claims that a name or a path means: those that ship with the package by name, else a file.

    Raises ClaimsError of one line: file, line, field, what is wrong, and the way out.
    """
    if claims in builtin():
        found = yaml.read(BUILTIN / f"{claims}.yaml")
        return of_source(Source(f"{claims}.yaml", found.tree, found.lines), claims)
    path = Path(claims)
    if path.suffix not in (".yaml", ".yml") and not yaml.exists(path):
        raise ClaimsError(f"claims {claims[:80]!r} are not built in ({', '.join(builtin())}), and no such file is here")
    return of_source(yaml.read(path), path.stem)


def of_source(source: Source, name: str) -> Claims:
    """Claims from a parsed file."""
    return _Reader(source).claims(name)


@dataclass(frozen=True)
class _Context:
    """What a table says of all its rows."""

    model: str | None
    retention: str | None
    tokens: str | None
    text_tokens: int | None
    baseline: str | None
    quantity: str


class _Reader:
    def __init__(self, source: Source):
        self.source = source
        self.fields = Fields(source)
        self.models: dict[str, Model] = {}
        self.own = ""

    # Places of values are paths in the file; `Fields` refuses what is wrong at one by its line.

    def claims(self, name: str) -> Claims:
        top = self.fields.mapping((), self.source.tree)
        self.fields.known((), top, _TOP)
        for needed in ("paper", "models", "tables"):
            if top.get(needed) is None:
                self.source.refuse((needed,), "is missing; docs/claims.md has the format")
        paper = self.fields.text(("paper",), top["paper"])
        for label, body in self.fields.mapping(("models",), top["models"]).items():
            path = ("models", label)
            self.models[label] = model = self.fields.record(path, Model, self.fields.mapping(path, body))
            if model.heads % (model.kv_heads or model.heads):
                self.source.refuse((*path, "kv_heads"), f"{model.kv_heads} do not divide {model.heads} heads")
            if model.head_dim is None and model.hidden % model.heads:
                self.source.refuse(
                    (*path, "heads"), f"{model.heads} do not divide hidden {model.hidden}; give head_dim"
                )
        if not self.models:
            self.source.refuse(("models",), "names none")
        method = self._method(top.get("method"))
        self.own = (method.name or re.split(r"[:\s]", paper)[0]).casefold()
        bodies = self.fields.mapping(("tables",), top["tables"])
        if not bodies:
            self.source.refuse(("tables",), "holds none; without printed figures there is nothing to audit")
        tables = tuple(self._table(label, body) for label, body in bodies.items())
        if sum(len(table.rows) for table in tables) > _MOST_ROWS:
            self.source.refuse(("tables",), f"hold more than {_MOST_ROWS} rows; audit a paper at a time")
        return Claims(
            name=name,
            paper=paper,
            source=None if top.get("source") is None else self.fields.text(("source",), top["source"]),
            models=self.models,
            method=method,
            own=self.own,
            tables=tables,
        )

    # --- the method ---------------------------------------------------------------------------------------------

    def _method(self, body: Any) -> Method:
        fields = dict(self.fields.mapping(("method",), body or {}))
        if "public_repo_budgets" in fields:
            if "published_budgets" in fields:
                self.source.refuse(("method", "public_repo_budgets"), "is another name of published_budgets; give one")
            fields["published_budgets"] = fields.pop("public_repo_budgets")
            where: Path_ = ("method", "public_repo_budgets")
        else:
            where = ("method", "published_budgets")
        given = self.fields.mapping(where, fields.pop("published_budgets", None) or {})
        published = tuple(self._published((*where, label), label, budgets) for label, budgets in given.items())
        method = self.fields.record(("method",), Method, fields)
        for start, layers in method.pruning_layers.items():
            fits = [model for name, model in self.models.items() if name.startswith(start)]
            if any(later <= earlier for earlier, later in pairwise(layers)):
                self.source.refuse(("method", "pruning_layers", start), f"{list(layers)} do not ascend")
            if fits and layers and layers[-1] >= min(model.layers for model in fits):
                self.source.refuse(("method", "pruning_layers", start), f"{layers[-1]} is not inside the decoder")
        return method.model_copy(update={"published_budgets": published})

    def _published(self, path: Path_, label: str, body: Any) -> Published:
        model, retention, tokens, variant = self._label(label)
        budgets = self._budgets(path, self.fields.mapping(path, body), model)
        return Published(label=label, model=model, variant=variant, tokens=tokens, retention=retention, budgets=budgets)

    def _budgets(self, path: Path_, body: Mapping[str, Any], name: str | None) -> Budgets:
        budgets = self.fields.record(path, Budgets, body)
        shares = [*budgets.keep_ratio, *([budgets.encoder_ratio] if budgets.encoder_ratio else [])]
        if any(Printed.of(share).value > 1 for share in shares):
            self.source.refuse(path, "a ratio of kept tokens lies between 0 and 1")
        stages = len(budgets.layers)
        if stages != len(budgets.keep) + len(budgets.keep_ratio):
            self.source.refuse(path, f"{stages} layers, but budgets for {len(budgets.keep) + len(budgets.keep_ratio)}")
        if any(later <= earlier for earlier, later in pairwise(budgets.layers)):
            self.source.refuse((*path, "layers"), f"{list(budgets.layers)} do not ascend")
        model = self.models.get(name or "")
        if model is not None and budgets.layers and budgets.layers[-1] >= model.layers:
            self.source.refuse((*path, "layers"), f"{budgets.layers[-1]} is not inside a decoder of {model.layers}")
        if model is not None:
            tokens = budgets.tokens_by_layer(model)
            if any(later > earlier for earlier, later in pairwise((model.visual_tokens, *tokens))):
                self.source.refuse(
                    (*path, "keep"), f"no stage may hold more than the one before it, or {model.visual_tokens}"
                )
        return budgets

    # --- tables and rows ----------------------------------------------------------------------------------------

    def _table(self, name: str, body: Any) -> Table:
        path: Path_ = ("tables", name)
        fields = self.fields.mapping(path, body)
        if (
            not set(fields) & set(_TABLE)
            and all(
                isinstance(value, str) or (isinstance(value, dict) and not set(value) & set(_ROW))
                for value in fields.values()
            )
            and not any(self.fields.is_series(key) for key in fields)
        ):
            # Bare figures: the table's name ends with what they are, or nothing says it.
            fields = {"rows": fields, "quantity": next((known for known in PLAIN if name.endswith(known)), "figure")}
        series = {key: value for key, value in fields.items() if key not in _TABLE}
        context = self._context(path, fields)
        rows: list[Row] = []
        for label, figures in self.fields.mapping((*path, "rows"), fields.get("rows") or {}).items():
            rows += self._rows((*path, "rows", label), label, figures, context)
        if "rows" in fields and not rows:
            self.source.refuse((*path, "rows"), "holds none")
        for key, value in series.items():
            rows += self._series((*path, key), key, value, context)
        rows += self._claims(path, fields, context)
        if not rows:
            self.source.refuse(path, "holds no rows, no claims and no series of figures")
        dense = [row.label for row in rows if row.method is None]
        if context.baseline is not None and not any(label == context.baseline for label in dense):
            self.source.refuse((*path, "baseline"), f"{context.baseline!r} is no row of this table")
        record = {key: fields[key] for key in ("where", "dataset", "device", "samples", "convention") if key in fields}
        record |= {"dtype": fields.get("dtype") or "float16", "benchmarks": fields.get("benchmarks") or ()}
        table = self.fields.record(path, Table, {"name": name, **record})
        if table.dtype not in DTYPES:
            self.source.refuse((*path, "dtype"), f"{table.dtype!r} is none of {', '.join(DTYPES)}")
        if table.convention is not None:
            try:
                find(table.convention)
            except StudyError as error:
                self.source.refuse((*path, "convention"), str(error))
        for row in rows:
            if row.scores and len(row.scores) != len(table.benchmarks):
                at = (*path, "rows", row.label, "scores")
                self.source.refuse(at, f"{len(row.scores)} scores for {len(table.benchmarks)} benchmarks")
        return table.model_copy(update={"rows": tuple(rows)})

    def _context(self, path: Path_, fields: Mapping[str, Any]) -> _Context:
        model = self._model(path, fields)
        if model is None and len(self.models) == 1:
            model = next(iter(self.models))
        named = fields.get("quantity")
        if named is not None:
            self.fields.quantity_of((*path, "quantity"), named)
        return _Context(
            model=model,
            retention=self.fields.retention(path, fields),
            tokens=self.fields.optional((*path, "tokens"), fields.get("tokens"), self.fields.digits),
            text_tokens=self.fields.optional((*path, "text_tokens"), fields.get("text_tokens"), self.fields.whole),
            baseline=self.fields.optional((*path, "baseline"), fields.get("baseline"), self.fields.text),
            quantity=named or "figure",
        )

    def _rows(self, path: Path_, label: str, body: Any, context: _Context) -> list[Row]:
        if isinstance(body, str):
            body = {context.quantity: body}
        fields = self.fields.mapping(path, body)
        columns = {key for key in fields if key not in _ROW and not self.fields.is_quantity(key)}
        if columns and context.quantity != "figure" and columns == set(fields):
            # Columns are methods; the table says what they are figures of.
            return [
                self._row(
                    (*path, key), f"{label}, {key}", label, {"method": key, context.quantity: fields[key]}, context
                )
                for key in fields
            ]
        return [self._row(path, label, label, fields, context)]

    def _row(self, path: Path_, label: str, named: str, fields: Mapping[str, Any], context: _Context) -> Row:
        model, retention, tokens, rest = self._label(named)
        model = self._model(path, fields) or model or context.model
        method = self.fields.optional((*path, "method"), fields.get("method"), self.fields.text) or rest
        dense = named == context.baseline or method.casefold() in _DENSE
        method = None if dense else self.own if method.casefold() in ("", "ours", self.own) else method.casefold()
        body = {key: fields[key] for key in _BUDGETS if fields.get(key) is not None}
        given = self.fields.retention(path, fields) or (
            retention and self.fields.retention(path, {"retention": retention})
        )
        figures = {key: value for key, value in fields.items() if key not in _ROW}
        for key, value in self.fields.mapping((*path, "printed"), fields.get("printed") or {}).items():
            if key in figures:
                self.source.refuse((*path, "printed", key), "stands twice; name each figure once")
            figures[key] = value
        overhead = fields.get("overhead", "false" if (method or "").split(",")[0] in _NO_CHOICE else "true")
        if overhead not in ("true", "false"):
            self.source.refuse((*path, "overhead"), f"{overhead!r} is neither true nor false")
        text_tokens = self.fields.optional((*path, "text_tokens"), fields.get("text_tokens"), self.fields.whole)
        tokens = self.fields.optional((*path, "tokens"), fields.get("tokens"), self.fields.digits) or tokens
        of_table = not dense and given is None and tokens is None
        row = Row(
            label=label,
            line=self.source.lines.get(path, 1),
            model=model,
            method=method,
            retention=context.retention if of_table else given,
            tokens=context.tokens if of_table else tokens,
            text_tokens=context.text_tokens if text_tokens is None else text_tokens,
            overhead=overhead == "true",
            figures={key: self.fields.figure((*path, key), key, value) for key, value in figures.items()},
            break_even=self.fields.break_even((*path, "break_even"), fields.get("break_even")),
            scores=tuple(
                self.fields.digits((*path, "scores", i), value)
                for i, value in enumerate(self.fields.items((*path, "scores"), fields.get("scores")))
            ),
            schedule=self._budgets(path, body, model) if body else None,
        )
        if not (row.figures or row.scores or row.break_even or (row.schedule and (row.tokens or row.retention))):
            self.source.refuse(path, "holds no figure")
        limit = self.models[row.model].visual_tokens if row.model else None
        if row.tokens and limit and Printed.of(row.tokens).value > limit:
            self.source.refuse((*path, "tokens"), f"{row.tokens} of {limit} visual tokens")
        return row

    def _series(self, path: Path_, key: str, body: Any, context: _Context) -> list[Row]:
        """`total_s: {0.11: 2733, …}`: one quantity by retention; `baseline_total_s: 5921`: of the dense model."""
        name = key.removeprefix("baseline_")
        if not self.fields.is_quantity(name):
            near = get_close_matches(key, _TABLE, n=1)
            self.fields.quantity_of(path, name, f"; perhaps {near[0]}" if near else "")
        if name != key:
            return [self._row(path, key, "baseline", {name: body}, context)]
        return [
            self._row((*path, at), at, "", {"retention": at, name: value}, context)
            for at, value in self.fields.mapping(path, body).items()
        ]

    def _claims(self, path: Path_, fields: Mapping[str, Any], context: _Context) -> list[Row]:
        """What a table, an abstract or a passage says of the method as a whole."""
        rows: list[Row] = []
        if fields.get("claims") is not None:
            body = self.fields.mapping((*path, "claims"), fields["claims"])
            rows.append(self._row((*path, "claims"), "claims", "", body, context))
        passage = fields.get("passage")
        if passage is not None and (said := _said(self.fields.text((*path, "passage"), passage))):
            rows.append(self._row((*path, "passage"), "passage", "", said, context))
        return rows

    def _model(self, path: Path_, fields: Mapping[str, Any]) -> str | None:
        name = self.fields.optional((*path, "model"), fields.get("model"), self.fields.text)
        if name is not None and name not in self.models:
            self.source.refuse((*path, "model"), f"{name!r} is none of {', '.join(self.models)}")
        return name

    def _label(self, label: str) -> tuple[str | None, str | None, str | None, str]:
        """Model, retention, tokens and what is left of a row's label: `llava-next-7b 11.1pct`, `trio 22pct`."""
        names = [name for name in self.models if label == name or label.startswith(f"{name} ")]
        model = max(names, key=len) if names else None
        words = label.removeprefix(model or "").split()
        retention = tokens = None
        if words and (found := re.fullmatch(r"(\d+(?:\.\d+)?)(?:pct|%)", words[-1])):
            retention = of_percent(found[1])
            words.pop()
        elif words and model is not None and re.fullmatch(r"[1-9]\d*", words[-1]):
            tokens = words.pop()
            if words and words[-1] == "avg":
                words.pop()
        return model, retention, tokens, " ".join(words)


def _said(passage: str) -> dict[str, Any]:
    """The two kinds of claims that are read out of a sentence; others stand under `claims`."""
    said: dict[str, Any] = {}
    number = r"(\d+(?:\.\d+)?)\s*%"
    if "break-even" in passage and (found := re.search(rf"between {number} and {number}", passage)):
        said["break_even"] = [of_percent(found[1]), of_percent(found[2])]
    if "overhead" in passage and (found := re.search(rf"less than {number}", passage)):
        said["overhead_below_pct"] = found[1]
    return said
