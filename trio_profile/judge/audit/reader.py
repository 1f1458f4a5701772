"""Read a file of claims: every field is checked, and a fault is reported with its line.

The method `_Reader.claims` goes through the file from top to bottom. A "place" is the path of a value in the file; the
source knows its line.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any

from trio_profile.judge.audit import source as yaml
from trio_profile.judge.audit.claims import BUILTIN, Budgets, Claims, Method, Model, Published, Row, Table, builtin, share
from trio_profile.judge.audit.claims_file import ClaimsFile, RowFields, TableFields, figure, is_quantity, of_percent
from trio_profile.judge.audit.printed import Printed
from trio_profile.judge.audit.quantities import PLAIN, quantity
from trio_profile.judge.audit.source import Place, Source
from trio_profile.errors import ClaimsError

_SCHEDULE = ("layers", "keep", "keep_ratio", "encoder_keep", "encoder_ratio")
"""Fields of a row that make a schedule."""
_DENSE = ("baseline", "dense", "vanilla", "upper bound", "no pruning")
"""Labels of a dense row."""
_WITHOUT_OVERHEAD = ("grid", "random", "uniform", "stride")
"""Methods that select without looking at the tokens. Their selection costs no work that a formula counts."""
_MOST_ROWS = 1000
"""All rows are compared with each other, so the time of an audit grows with the square of their number."""


def read(claims: str) -> Claims:
    """The claims of this name: built-in ones, or a file.

    Raises ClaimsError with the file, the line, the field, what is wrong and what it may be.
    """
    if claims in builtin():
        found = yaml.read(BUILTIN / f"{claims}.yaml")
        return of_source(Source(f"{claims}.yaml", found.tree, found.lines), claims)
    path = Path(claims)
    if path.suffix not in (".yaml", ".yml") and not yaml.exists(path):
        raise ClaimsError(f"claims {claims[:80]!r} are not built in ({', '.join(builtin())}), and no such file is here")
    return of_source(yaml.read(path), path.stem)


def of_source(source: Source, name: str) -> Claims:
    """The claims of a parsed file. Raises ClaimsError as `read` does."""
    return _Reader(source).claims(name)


@dataclass(frozen=True)
class _Context:
    """What a table states for its rows.

    fields: the table's own fields.
    model: of rows that name none.
    quantity: what a figure without a name is.
    """

    fields: TableFields
    model: str | None
    quantity: str


class _Reader:
    def __init__(self, source: Source):
        self.source = source
        self.models: dict[str, Model] = {}
        self.own = ""

    def claims(self, name: str) -> Claims:
        file = self.source.record((), ClaimsFile, self.source.tree)
        self.models = {label: self.source.record(("models", label), Model, body) for label, body in file.models.items()}
        method = self._method(file.method)
        self.own = (method.name or re.split(r"[:\s]", file.paper)[0]).casefold()
        tables = tuple(self._table(label, body) for label, body in file.tables.items())
        if sum(len(table.rows) for table in tables) > _MOST_ROWS:
            self.source.refuse(("tables",), f"hold more than {_MOST_ROWS} rows; audit a paper at a time")
        return Claims(
            name=name,
            paper=file.paper,
            source=file.source,
            models=self.models,
            method=method,
            own=self.own,
            tables=tables,
        )

    # --- the method ---------------------------------------------------------------------------------------------

    def _method(self, body: Mapping[str, Any]) -> Method:
        fields = dict(body)
        key = "public_repo_budgets" if "public_repo_budgets" in fields else "published_budgets"
        published = fields.pop(key, None) or {}
        if "published_budgets" in fields and key == "public_repo_budgets":
            self.source.refuse(("method", key), "is another name of published_budgets; give one")
        where = ("method", key)
        budgets = tuple(
            self._published((*where, label), label, b) for label, b in self._fields(where, published).items()
        )
        method = self.source.record(("method",), Method, fields)
        for start, layers in method.pruning_layers.items():
            depths = [model.layers for name, model in self.models.items() if name.startswith(start)]
            if depths and layers and layers[-1] >= min(depths):
                self.source.refuse(("method", "pruning_layers", start), f"{layers[-1]} is not inside the decoder")
        return method.model_copy(update={"published_budgets": budgets})

    def _published(self, place: Place, label: str, body: Any) -> Published:
        model, retention, tokens, variant = self._label(label)
        budgets = self._budgets(place, self._fields(place, body), model)
        return Published(label=label, model=model, variant=variant, tokens=tokens, retention=retention, budgets=budgets)

    def _budgets(self, place: Place, body: Mapping[str, Any], name: str | None) -> Budgets:
        """A schedule, checked against the model that it is for, if one is known."""
        budgets = self.source.record(place, Budgets, body)
        model = self.models.get(name or "")
        if model is None:
            return budgets
        if budgets.layers and budgets.layers[-1] >= model.layers:
            self.source.refuse((*place, "layers"), f"{budgets.layers[-1]} is not inside a decoder of {model.layers}")
        tokens = (model.visual_tokens, *budgets.tokens_by_layer(model))
        if any(later > earlier for earlier, later in pairwise(tokens)):
            limit = f"no stage may hold more than the one before it, or {model.visual_tokens}"
            self.source.refuse((*place, "keep"), limit)
        return budgets

    # --- tables -------------------------------------------------------------------------------------------------

    def _table(self, name: str, body: Mapping[str, Any]) -> Table:
        place: Place = ("tables", name)
        if _is_bare(body):
            # The table consists of figures only. The end of its name says what they are.
            body = {"rows": body, "quantity": next((known for known in PLAIN if name.endswith(known)), "figure")}
        known, series = _split(body, TableFields)
        fields = self.source.record(place, TableFields, known)
        only_model = next(iter(self.models)) if len(self.models) == 1 else None
        context = _Context(fields, self._known_model(place, fields.model) or only_model, fields.quantity or "figure")
        rows: list[Row] = []
        for label, figures in (fields.rows or {}).items():
            rows += self._rows((*place, "rows", label), label, figures, context)
        if "rows" in body and not rows:
            self.source.refuse((*place, "rows"), "holds none")
        for key, value in series.items():
            rows += self._series((*place, key), key, value, context)
        rows += self._passages(place, context)
        if not rows:
            self.source.refuse(place, "holds no rows, no claims and no series of figures")
        if fields.baseline is not None and not any(row.method is None and row.label == fields.baseline for row in rows):
            self.source.refuse((*place, "baseline"), f"{fields.baseline!r} is no row of this table")
        for row in rows:
            if row.scores and len(row.scores) != len(fields.benchmarks):
                where = (*place, "rows", row.label, "scores")
                self.source.refuse(where, f"{len(row.scores)} scores for {len(fields.benchmarks)} benchmarks")
        return Table(name=name, rows=tuple(rows), **fields.model_dump(include=Table.model_fields.keys() - {"rows"}))

    def _series(self, place: Place, key: str, body: Any, context: _Context) -> list[Row]:
        """`total_s: {0.11: 2733, …}` is a quantity by retention; `baseline_total_s: 5921` is the dense model's."""
        name = key.removeprefix("baseline_")
        if not is_quantity(name):
            near = get_close_matches(key, TableFields.model_fields, n=1)
            with self.source.at(place):
                try:
                    quantity(name)
                except ValueError as error:
                    raise ValueError(f"{error}{f'; perhaps {near[0]}' if near else ''}") from error
        if name != key:
            return [self._row(place, key, "baseline", {name: body}, context)]
        return [
            self._row((*place, at), at, "", {"retention": at, name: value}, context)
            for at, value in self._fields(place, body).items()
        ]

    def _passages(self, place: Place, context: _Context) -> list[Row]:
        """What a table's claims, an abstract or a passage say of the method as a whole."""
        rows: list[Row] = []
        if context.fields.claims is not None:
            rows.append(self._row((*place, "claims"), "claims", "", context.fields.claims, context))
        if context.fields.passage is not None and (stated := _stated(context.fields.passage)):
            rows.append(self._row((*place, "passage"), "passage", "", stated, context))
        return rows

    # --- rows ---------------------------------------------------------------------------------------------------

    def _rows(self, place: Place, label: str, body: Any, context: _Context) -> list[Row]:
        """The row of a label; several rows if its columns are methods."""
        fields = {context.quantity: body} if isinstance(body, str) else self._fields(place, body)
        methods = {key for key in fields if key not in _ROW_FIELDS and not is_quantity(key)}
        if not methods or context.quantity == "figure" or methods != set(fields):
            return [self._row(place, label, label, fields, context)]
        return [
            self._row((*place, key), f"{label}, {key}", label, {"method": key, context.quantity: value}, context)
            for key, value in fields.items()
        ]

    def _row(self, place: Place, label: str, named: str, body: Mapping[str, Any], context: _Context) -> Row:
        """One row.

        label: as it is stored.
        named: the part of the label that may name the model, the method and the retention.
        """
        known, rest = _split(body, RowFields)
        fields = self.source.record(place, RowFields, known)
        model, retention, tokens, method = self._label(named)
        model = self._known_model(place, fields.model) or model or context.model
        method = (fields.method or method).casefold()
        dense = named == context.fields.baseline or method in _DENSE
        if retention is not None:
            with self.source.at((*place, "retention")):
                share(retention)
        retention, tokens = fields.share or retention, fields.tokens or tokens
        if not dense and retention is None and tokens is None:
            retention, tokens = context.fields.share, context.fields.tokens
        schedule = {key: rest.pop(key) for key in _SCHEDULE if key in rest}
        schedule = {key: value for key, value in schedule.items() if value is not None}
        without_overhead = method.split(",")[0] in _WITHOUT_OVERHEAD
        row = Row(
            label=label,
            line=self.source.lines.get(place, 1),
            model=model,
            method=None if dense else self.own if method in ("", "ours") else method,
            retention=retention,
            tokens=tokens,
            text_tokens=context.fields.text_tokens if fields.text_tokens is None else fields.text_tokens,
            overhead=not without_overhead if fields.overhead is None else fields.overhead == "true",
            figures=self._figures(place, rest, fields.printed),
            break_even=fields.break_even,
            scores=fields.scores,
            schedule=self._budgets(place, schedule, model) if schedule else None,
        )
        self._check_row(place, row)
        return row

    def _figures(self, place: Place, figures: Mapping[str, Any], printed: Mapping[str, Any]) -> dict[str, str]:
        """The figures of a row, those under `printed` included."""
        found: dict[str, str] = {}
        named = [((*place, key), key, value) for key, value in figures.items()]
        named += [((*place, "printed", key), key, value) for key, value in printed.items()]
        for where, key, value in named:
            if key in found:
                self.source.refuse(where, "stands twice; name each figure once")
            with self.source.at(where):
                found[key] = figure(key, value)
        return found

    def _check_row(self, place: Place, row: Row) -> None:
        """Refuse a row without figures, and one that keeps more tokens than its model has."""
        if not (row.figures or row.scores or row.break_even or (row.schedule and (row.tokens or row.retention))):
            self.source.refuse(place, "holds no figure")
        limit = self.models[row.model].visual_tokens if row.model else None
        if row.tokens and limit and Printed.of(row.tokens).value > limit:
            self.source.refuse((*place, "tokens"), f"{row.tokens} of {limit} visual tokens")

    # --- labels and names ---------------------------------------------------------------------------------------

    def _known_model(self, place: Place, name: str | None) -> str | None:
        if name is not None and name not in self.models:
            self.source.refuse((*place, "model"), f"{name!r} is none of {', '.join(self.models)}")
        return name

    def _label(self, label: str) -> tuple[str | None, str | None, str | None, str]:
        """Model, retention, tokens and the rest of a row's label: `llava-next-7b 11.1pct`, `trio 22pct`."""
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

    def _fields(self, place: Place, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.source.refuse(place, "needs fields with values, name: value")
        return value


_ROW_FIELDS = (*RowFields.model_fields, *_SCHEDULE)


def _split(body: Mapping[str, Any], kind: type[TableFields | RowFields]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A table's or row's own fields, and the rest: its figures."""
    known = {key: value for key, value in body.items() if key in kind.model_fields}
    return known, {key: value for key, value in body.items() if key not in known}


def _is_bare(body: Mapping[str, Any]) -> bool:
    """Whether a table consists of labels with figures only."""
    return not any(
        key in TableFields.model_fields
        or is_quantity(key.removeprefix("baseline_"))
        or not (isinstance(value, str) or (isinstance(value, dict) and not value.keys() & set(_ROW_FIELDS)))
        for key, value in body.items()
    )


def _stated(passage: str) -> dict[str, Any]:
    """The two kinds of claims that are read from a sentence. Other claims stand under `claims`."""
    found: dict[str, Any] = {}
    number = r"(\d+(?:\.\d+)?)\s*%"
    if "break-even" in passage and (ends := re.search(rf"between {number} and {number}", passage)):
        found["break_even"] = [of_percent(ends[1]), of_percent(ends[2])]
    if "overhead" in passage and (bound := re.search(rf"less than {number}", passage)):
        found["overhead_below_pct"] = bound[1]
    return found
