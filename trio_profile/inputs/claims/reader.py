"""Read a claims file: every part is checked, and a fault is reported with its line.

A "place" is the path of a value in the file; the source knows its line.
"""

from itertools import pairwise
from pathlib import Path

from trio_profile.cost.printed import Printed
from trio_profile.errors import ClaimsError
from trio_profile.inputs.claims.claims import BUILTIN, Budgets, Claims, Model, Row, Setting, Table, builtin
from trio_profile.records import yaml_source as yaml
from trio_profile.records.yaml_source import Place, Source

_MOST_ROWS = 1000
"""All rows are compared with each other, so the time of an audit grows with the square of their number."""


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
    tree = {**source.tree, "label": name} if isinstance(source.tree, dict) else source.tree
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
    return claims


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
