"""Make a checked Study from given fields and a study.toml. This is the same for all kinds."""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from trio_profile.errors import StudyError
from trio_profile.inputs import catalogue
from trio_profile.optional import require_run, set_broken_torchvision_aside
from trio_profile.reading import parse_toml, read_text
from trio_profile.records.record import Record, first_problem
from trio_profile.records.study import GONE, Study, of_any_age
from trio_profile.study.kind import Kind
from trio_profile.study.kinds import KINDS, find

AnyStudy = Any
"""A Study, or what its kind has in its place."""
_MOST_BYTES = 1_000_000
_OF_EVERY_MODEL = ("dtype", "device", "seed", "attention")


class Draft(NamedTuple):
    """A study that was checked without torch.

    study: with every default but those of the machine.
    open: the fields whose defaults depend on the machine: `device` and `dtype`.
    """

    study: Any
    open: frozenset[str] = frozenset()

    def complete(self) -> Any:
        """Return the study with the defaults of this machine: CUDA in bfloat16 if there is CUDA, otherwise the CPU.

        Raises OptionError if a method of the user cannot be imported, or if two methods do not combine, and StudyError
        if a function that judges answers cannot be imported.
        """
        study = self.study
        if isinstance(study, Study) and find(study.verb).runs_a_model:
            set_broken_torchvision_aside()
        if isinstance(study, Study) and any(":" in name or "+" in name for name in study.methods):
            from trio_core import methods

            for name in study.methods:
                methods.find(name)
        if ":" in getattr(study, "match", ""):
            from trio_profile.inputs.matching import rule_of

            rule_of(study.match)
        device = study.device if isinstance(study, Study) else ""
        if "device" in self.open:
            import torch

            device = "cuda" if torch.cuda.is_available() else "cpu"
        values = {"device": device, "dtype": "bfloat16" if device.startswith("cuda") else "float32"}
        return study.model_copy(update={name: values[name] for name in self.open})


def make(kind_name: str, fields: Mapping[str, Any], file: Path | None = None, *, trust: bool = False) -> Any:
    """Return a checked study of a kind. The arguments and the errors are those of `draft` and `Draft.complete`."""
    return draft(kind_name, fields, file, trust=trust).complete()


def draft(kind_name: str, fields: Mapping[str, Any], file: Path | None = None, *, trust: bool = False) -> Draft:
    """Return a study of a kind, checked as far as that needs no torch: a Study, or what the kind has in its place.

    fields: given fields of the study. They override the file; the defaults of the kind fill the rest.
    file: a study.toml of the same kind.
    trust: whether code that a file names, the study's or a suite's, may run. Code that `fields` name may.
    Raises StudyError if the file cannot be read or is of another kind, if a file names code and is not trusted, if the
    kind does not take a field, if a value is out of range, if there are several values where the kind takes one, if a
    model, a picture or a file of questions does not exist, or if the kind runs a model and the extra `run` is not
    installed. Raises OptionError for an unknown method, a retention or layers that no method can have.
    """
    kind = find(kind_name)
    of_file = _read_kind(kind, file) if file else {}
    file_alone = {name: value for name, value in of_file.items() if name not in fields}
    _refuse_function(file_alone, f"study {file}")
    if not trust:
        refuse_code(file_alone, f"study {file}")
    chosen = {**of_file, **fields}
    if kind.runs_a_model:
        require_run(kind.name)
    for other in KINDS.values():
        if other.instead_of == kind.name and (made := other.load("instead")(kind, chosen, trust=trust)) is not None:
            return made
    if chosen.get("verb", kind.name) != kind.name:
        raise StudyError(f"verb = {chosen['verb']!r}: this is a study of kind {kind.name!r}; leave verb out")
    study: Any = _validated({**kind.defaults, **chosen, "verb": kind.name}, kind)
    _refuse_foreign_fields(kind, study)
    if isinstance(study, Study) and kind.runs_a_model:
        for method in study.methods:
            catalogue.require_method(method)
        catalogue.require_model(study.model)
        catalogue.require_device(study.device)
    if kind.prepare:
        study = kind.load("prepare")(study)
    if isinstance(study, Study):
        if not trust and "methods" not in chosen:
            refuse_code({"methods": study.methods}, f"suite {study.suite}")
        _refuse_several(kind, study)
        _require_files(study)
        _require_questions(study)
        if kind.runs_a_model and not kind.keep_refusals:
            _require_places(study)
    return Draft(study, _open_fields(kind, chosen))


def refuse_code(fields: Mapping[str, Any], source: str) -> None:
    """Raise StudyError if stored fields of a study name code: measuring would import it, and so run it.

    fields: as they are stored, not checked yet.
    source: the file.
    """
    methods = fields.get("methods")
    for method in methods if isinstance(methods, list | tuple) else [methods]:
        for part in str(method).split("+"):
            if ":" in part:
                module = part.partition(":")[0]
                raise StudyError(_untrusted(source, f"module {module!r} ({method})"))
    if (tasks := fields.get("task_path")) is not None:  # its YAML files name functions
        raise StudyError(_untrusted(source, f"the functions of the tasks in {str(tasks)!r}"))
    if "/" in (kernel := str(fields.get("attention"))):
        raise StudyError(_untrusted(source, f"the kernel {kernel!r} of the hub"))


def _untrusted(source: str, code: str) -> str:
    return f"{source} names code that would run here, {code}: read it, then give --trust"


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
        fields = of_any_age(read(file))
        return _validated(fields, find(str(fields.get("verb", "sweep"))))
    except StudyError as error:
        raise StudyError(f"{file}: {error}") from error


def fields_of(kind: Kind) -> set[str]:
    """Return the fields of the study that a kind takes."""
    return {"verb", *kind.options, *kind.fields, *(_OF_EVERY_MODEL if kind.runs_a_model else ())}


def _refuse_function(fields: Mapping[str, Any], source: str) -> None:
    """Raise StudyError if a file chooses a function that judges answers: it would be imported.

    fields: those that the file alone gives. source: the file.
    """
    if ":" in (rule := str(fields.get("match", ""))):
        raise StudyError(f"{source}: match = {rule!r} runs a function, which a file cannot choose; give --match {rule}")


def _read_kind(kind: Kind, file: Path) -> dict[str, Any]:
    """Return the fields of a study.toml. Raises StudyError if it is of another kind."""
    fields = {name: value for name, value in read(file).items() if name not in GONE}
    verb = fields.get("verb", kind.name)
    if verb != kind.name:
        raise StudyError(
            f"study {file} is of kind {verb!r}, not {kind.name!r}: run `trio-profile {verb} --study {file}`"
        )
    return fields


def _open_fields(kind: Kind, chosen: Mapping[str, Any]) -> frozenset[str]:
    """Return the fields that are not given and whose defaults depend on the machine."""
    if "device" not in kind.options:
        return frozenset()
    return frozenset(name for name in ("device", "dtype") if name not in chosen and name not in kind.defaults)


def _validated(fields: dict[str, Any], kind: Kind) -> AnyStudy:
    """Return the study with these fields. Raises StudyError for the first field that is not valid."""
    study: type[Record] = kind.load("study")
    if unknown := sorted(set(fields) - set(study.model_fields)):
        if unknown[0] == "engine":
            raise StudyError(f"engine = {fields['engine']!r}: a study names none; leave it out, and give --engine ray")
        near = get_close_matches(unknown[0], study.model_fields, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; see {study.__module__.replace('.', '/')}.py"
        raise StudyError(f"{unknown[0]} = {fields[unknown[0]]!r}: a study has no such field{hint}")
    try:
        return study(**fields)
    except ValidationError as error:
        field, message = first_problem(error)
        first = error.errors()[0]
        value, is_share = first["input"], first["type"] == "less_than_equal" and first.get("ctx", {}).get("le") == 1
        hint = f"; did you mean {value / 100:g}?" if is_share and value <= 100 else ""
        raise StudyError(f"{field or 'study'} = {value!r}: {message.lower()}{hint}") from error


def _refuse_foreign_fields(kind: Kind, study: AnyStudy) -> None:
    """Raise StudyError if the study sets a field that the kind does not take."""
    known = fields_of(kind)
    for name, field in type(study).model_fields.items():
        value, default = getattr(study, name), field.get_default(call_default_factory=True)
        if name not in known and value != kind.defaults.get(name, default):
            raise StudyError(f"{name} = {value!r}: a study of kind {kind.name!r} has no such field")


def _require_files(study: Study) -> None:
    """Raise StudyError for a picture, a video or a file of questions that is missing."""
    _refuse_two_inputs(study)
    if study.image is None and study.video is None and study.questions is None:
        return
    from trio_profile.inputs import frames, questions

    if study.video is not None:
        frames.require_video(study.video)
    if study.image is not None:
        questions.open_picture(study.image)
    for file in study.question_files:
        questions.require_file(Path(file))


def _refuse_two_inputs(study: Study) -> None:
    """Raise StudyError for a picture beside a video, for frames without a video, and for two rules for frames."""
    if study.image is not None and study.video is not None:
        raise StudyError(f"image {study.image!r} and video {study.video!r}: give one of them")
    if study.frames is not None and study.fps is not None:
        raise StudyError(f"frames = {study.frames} and fps = {study.fps}: give one of them")
    if study.video is study.questions is None and (study.frames is not None or study.fps is not None):
        raise StudyError("frames and fps choose from a video: give --video FILE too")


def _require_questions(study: Study) -> None:
    """Raise StudyError if fewer of the model's own questions are asked than an interval needs."""
    if study.fidelity_inputs and study.questions is None and catalogue.has_own_questions(study):
        from trio_profile.inputs.questions import enough

        enough(study.fidelity_inputs, f"--asked {study.fidelity_inputs}", answered=True)


def _require_places(study: Study) -> None:
    """Raise OptionError for a retention that no method can have, and for layers that the decoder does not have."""
    from trio_core.errors import OptionError
    from trio_core.rules.schedule import check_layers, check_retention

    for retention in study.retentions:
        check_retention(retention)
    is_local = study.model in catalogue.models() or Path(study.model).is_dir()
    depth = catalogue.known_num_layers(study.model) if study.layers and is_local else None
    if study.layers and depth is not None:
        check_layers(study.layers, depth)
    known = catalogue.methods()
    for name in study.methods:
        if 0 in (study.layers or ()) and name in known and known[name].stage == "decoder layers":
            raise OptionError(
                f"{name}: layers {study.layers}: they are 1-based; the first place to prune is after layer 1"
            )


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
