"""Make a checked Study from given fields and a study.toml. This is the same for all kinds."""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trio_profile.errors import StudyError
from trio_profile.kinds.servers.study import EndpointStudy
from trio_profile.optional import require_run
from trio_profile.reading import parse_toml, read_text
from trio_profile.records.record import first_problem
from trio_profile.records.study import Study
from trio_profile.studies.kinds import FIELDS, Kind, find
from trio_profile.studies.suites import METHODS

AnyStudy = Study | EndpointStudy
"""What a kind of study measures: a model, or servers."""
_MOST_BYTES = 1_000_000
_OF_EVERY_MODEL = {"verb", "dtype", "device", "seed", "attention"}


def make(kind_name: str, fields: Mapping[str, Any], file: Path | None = None) -> Any:
    """Return a checked study of a kind: a Study, or what the kind has in its place (`Kind.study`).

    fields: given fields of the study. They override the file; the defaults of the kind fill the rest.
    file: a study.toml of the same kind.
    Raises StudyError if the file cannot be read or is of another kind, if the kind does not take a field, if a value is
    out of range, if there are several values where the kind takes one, or if the kind runs a model and the extra `run`
    is not installed. Raises UnknownMethod for an unknown method.
    """
    kind = find(kind_name)
    given = {**(_read_kind(kind, file) if file else {}), **fields}
    if kind.runs_a_model:
        require_run(kind.name)
    if kind.name == "ablate" and (given.get("tasks") or given.get("suite")):
        return _ablation_on_tasks(kind, given)
    if given.get("verb", kind.name) != kind.name:
        raise StudyError(f"verb = {given['verb']!r}: this is a study of kind {kind.name!r}; leave verb out")
    study: Any = _validated({**_defaults(kind, given), **given, "verb": kind.name}, kind)
    _refuse_foreign_fields(kind, study)
    if isinstance(study, Study):
        _require_methods(study)
    if kind.prepare:
        study = kind.load("prepare")(study)
    if isinstance(study, Study):
        _refuse_several(kind, study)
    return study


def _ablation_on_tasks(kind: Kind, given: Mapping[str, Any]) -> Study:
    """Return the study of `ablate` with tasks or a suite: an evaluation with a row for each variant.

    Of a suite it takes the benchmarks alone. Raises as `make` does.
    """
    taken = fields_of(find("eval"))
    for name, value in given.items():
        if name not in taken:
            raise StudyError(f"{name} = {value!r}: ablate on tasks has no such field; leave it out")
    alone = {"methods": METHODS, "retentions": kind.defaults["retentions"]}
    study = make("eval", {**alone, **given, "verb": "eval"})
    if any(study.ablations.values()):
        return study
    from trio_profile.studies.ablate import variants_of

    return study.model_copy(update={"ablations": variants_of(study, tuple(study.ablations))})


def read(file: Path) -> dict[str, Any]:
    """Return the fields of a study.toml. Raises StudyError if the file is missing or not TOML."""
    try:
        return parse_toml(read_text(file, _MOST_BYTES))
    except FileNotFoundError as error:
        raise StudyError(f"study {file} does not exist") from error
    except OSError as error:
        raise StudyError(f"study {file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise StudyError(f"study {file} is not TOML: {error}") from error


def stored(file: Path) -> AnyStudy:
    """Return the study that a directory keeps. Raises StudyError, naming the file, if it is not valid."""
    try:
        fields = read(file)
        return _validated(fields, find(str(fields.get("verb", "sweep"))))
    except StudyError as error:
        raise StudyError(f"{file}: {error}") from error


def fields_of(kind: Kind) -> set[str]:
    """Return the fields of the study that a kind takes."""
    common = _OF_EVERY_MODEL if kind.runs_a_model else {"verb"}
    return (
        {FIELDS.get(option, option) for option in kind.options} & set(kind.load("study").model_fields)
        | common
        | {*kind.fields}
    )


def _read_kind(kind: Kind, file: Path) -> dict[str, Any]:
    """Return the fields of a study.toml. Raises StudyError if it is of another kind."""
    fields = read(file)
    verb = fields.get("verb", kind.name)
    if verb != kind.name:
        raise StudyError(
            f"study {file} is of kind {verb!r}, not {kind.name!r}: run `trio-profile {verb} --study {file}`"
        )
    return fields


def _defaults(kind: Kind, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of the kind. The default device is CUDA if this machine has it, in bfloat16."""
    found = dict(kind.defaults)
    if "dtype" not in kind.options and "device" not in kind.defaults:
        return found
    if "device" not in given and "device" not in found:
        import torch

        found["device"] = "cuda" if torch.cuda.is_available() else "cpu"
    device = str(given.get("device", found.get("device")))
    found.setdefault("dtype", "bfloat16" if device.startswith("cuda") else "float32")
    return found


def _validated(fields: dict[str, Any], kind: Kind) -> AnyStudy:
    """Return the study with these fields. Raises StudyError for the first field that is not valid."""
    study: type[Study] | type[EndpointStudy] = kind.load("study")
    if unknown := sorted(set(fields) - set(study.model_fields)):
        near = get_close_matches(unknown[0], study.model_fields, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; see {study.__module__.replace('.', '/')}.py"
        raise StudyError(f"{unknown[0]} = {fields[unknown[0]]!r}: a study has no such field{hint}")
    try:
        return study(**fields)
    except ValidationError as error:
        field, message = first_problem(error)
        raise StudyError(f"{field or 'study'} = {error.errors()[0]['input']!r}: {message.lower()}") from error


def _refuse_foreign_fields(kind: Kind, study: AnyStudy) -> None:
    """Raise StudyError if the study sets a field that the kind does not take."""
    known = fields_of(kind)
    for name, field in type(study).model_fields.items():
        value, default = getattr(study, name), field.get_default(call_default_factory=True)
        if name not in known and value != kind.defaults.get(name, default):
            raise StudyError(f"{name} = {value!r}: a study of kind {kind.name!r} has no such field")


def _require_methods(study: Study) -> None:
    """Raise UnknownMethod if the study names an unknown method."""
    if study.methods and "model" in fields_of(find(study.verb)):
        from trio_core import methods

        for method in study.methods:
            methods.find(method)


def _refuse_several(kind: Kind, study: Study) -> None:
    """Raise StudyError if a field has several values where the kind takes one, or none where it needs one."""
    if len(study.question_files) > 1 and "questions" not in kind.several:
        raise StudyError(f"questions = {', '.join(study.question_files)}: {kind.name} takes one file; give one of them")
    for name, singular in (("methods", "method"), ("retentions", "retention")):
        values = getattr(study, name)
        if name not in fields_of(kind):
            continue
        if len(values) > 1 and name not in kind.several:
            raise StudyError(
                f"{name} = {', '.join(map(str, values))}: {kind.name} measures one {singular}; give one of them"
            )
        if not values and not kind.defaults.get(name) == ():
            raise StudyError(f"{name} is empty: name at least one")
