"""Compare two studies, or two pytest-benchmark files: read the quantities of each side, and judge them.

A study gives each cell's time over the dense model's, measured in turn. The dense model is the common reference of both
studies. The ratio of the two ratios shows how the method changed, and the machine cancels out. A pytest-benchmark file
gives raw times, and the whole numbers that a benchmark stored in `extra_info`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from trio_profile.errors import MeasurementError, StoreError
from trio_profile.judge.times import MEASURED, speedup_centres
from trio_profile.kinds.gate.document import Verdict
from trio_profile.kinds.gate.verdict import MAX_RATIO, Evidence, Measured, Samples, judge
from trio_profile.quantities.registry import QUANTITIES
from trio_profile.reading import parse_json
from trio_profile.records.contents import Contents
from trio_profile.records.differences import changed_input
from trio_profile.records.files import STUDY
from trio_profile.records.record import first_problem
from trio_profile.records.schema import Dense, Measurement, Session, Study
from trio_profile.records.study import EFFORT
from trio_profile.stats.intervals import machine_spread, median

RUN_MS = "run_ms"
"""The raw times of a benchmark."""
_MACHINE = ("machine", "system", "python_implementation", "python_version")
_NOT_THE_WORK = {"methods", "retentions", "picture", *EFFORT}
"""Fields of a study that may differ. They say which cells it has, how long they are sampled and what is kept of the
picture, not what a cell is."""


@dataclass
class Subject:
    """One side of the comparison.

    name: of the study or file.
    identity: the machine, which must be equal unless the user allows another one.
    environment: as stored, for the output.
    study, sessions: those of a study; None and empty for a pytest-benchmark file.
    is_judged: whether its answers were judged, so that the rule matters.
    evidence: the measurement of each quantity, by cell or benchmark.
    failed: cells that failed, with the reason.
    """

    name: str
    identity: dict[str, Any]
    environment: dict[str, Any]
    study: Study | None = None
    sessions: tuple[Session, ...] = ()
    is_judged: bool = False
    evidence: dict[str, dict[str, Evidence]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def leave_out_times(self) -> None:
        """Keep the whole numbers only."""
        for where, of_all in self.evidence.items():
            self.evidence[where] = {name: value for name, value in of_all.items() if isinstance(value, int)}


def compare(
    base: Subject,
    new: Subject,
    *,
    max_ratio: float = MAX_RATIO,
    quantities: Sequence[str] = (),
    other_environment: bool = False,
) -> list[Verdict]:
    """A verdict on every quantity of the base.

    quantities: judge only these.
    other_environment: allow two different machines.
    Raises MeasurementError if the two sides differ in kind, settings, machine or measured files; if a cell, benchmark
    or quantity is missing or failed on the new side; if there are too few samples; or if there is nothing to compare.
    """
    if base.study is not None and new.study is not None:
        _require_same_work(base, base.study, new, new.study)
    elif base.study != new.study:
        raise MeasurementError(f"one of {base.name} and {new.name} is a study, the other is not: name two of one kind")
    if not other_environment and (differences := _differences(base.identity, new.identity)):
        raise MeasurementError(
            f"{new.name} comes from another environment: {differences}; "
            "measure both on the same one, or give --allow-other-environment"
        )
    known = sorted({quantity for evidence in base.evidence.values() for quantity in evidence})
    if unknown := [quantity for quantity in quantities if quantity not in known]:
        raise MeasurementError(f"quantity {unknown[0]!r} is not in {base.name}; it holds {', '.join(known)}")
    verdicts = [
        judge(quantity, where, measured, _counterpart(new, where, quantity), max_ratio)
        for where, evidence in base.evidence.items()
        for quantity, measured in evidence.items()
        if not quantities or quantity in quantities
    ]
    if not verdicts:
        raise MeasurementError(f"{base.name} contains nothing to compare: measure it again")
    return verdicts


def _require_same_work(base: Subject, study: Study, new: Subject, other: Study) -> None:
    """Raise MeasurementError if two studies have different settings, or measured different files."""
    free = _NOT_THE_WORK if base.is_judged and new.is_judged else {"match", *_NOT_THE_WORK}
    settings = (side.model_dump(mode="json", exclude=free) for side in (study, other))
    if differences := _differences(*settings):
        way_out = f"; measure it again with --match {study.match}" if differences.startswith("match ") else ""
        raise MeasurementError(f"{new.name} and {base.name} have different settings: {differences}{way_out}")
    now = {name: digest for session in reversed(new.sessions) for name, digest in session.inputs.items()}
    if changed := changed_input(study, base.sessions, now, Path(base.name)):
        raise MeasurementError(f"{changed}, and {new.name} was measured with the changed file: use one for both")


def of_study(contents: Contents, name: str) -> Subject:
    """The side of a study: its cells and its dense model. Raises StoreError if the study is not finished.

    A cell that failed is not missing.
    """
    study, dense = contents.study, contents.dense
    timed = {measurement.cell.id for measurement in contents.measurements}
    unfinished = [f"{cell.variant} at {cell.retention:g}" for cell in study.cells() if cell.id not in timed]
    if unfinished or dense is None:
        missing = "the dense model" if dense is None else f"the times of {unfinished[0]}"
        command = f"trio-profile {study.verb} --study {quote(f'{name}/{STUDY}')} --out {quote(name)}"
        raise StoreError(f"{name} lacks {missing}: finish it with `{command}`")
    environment = contents.environment
    subject = Subject(
        name=name,
        identity=environment.identity,
        environment=environment.model_dump(mode="json"),
        study=study,
        sessions=tuple(contents.sessions),
        is_judged=bool(dense.correct),
        evidence={"dense": _exact(dense)},
    )
    # With several threads, CPU time contains the time that they wait for each other.
    one_thread = environment.device_name == "cpu" and environment.cpu_threads == 1
    machine = machine_spread(study.device)
    times = (*MEASURED, *(("cpu_ms",) if one_thread else ()))
    centres = {time: speedup_centres(contents.done, time, machine) for time in times}
    for measurement in contents.measurements:
        where = f"{measurement.cell.variant} at {measurement.cell.retention:g}"
        if measurement.status != "done":
            subject.failed[where] = measurement.reason or "no reason was recorded"
            continue
        subject.evidence[where] = {
            f"{time.removesuffix('_ms')}_over_dense": Measured(of_cells[measurement.cell.id].inverse(), machine)
            for time, of_cells in centres.items()
            if measurement.cell.id in of_cells
        } | _exact(measurement)
    return subject


def _exact(record: Measurement | Dense) -> dict[str, Evidence]:
    """Return the exact quantities of a cell or of the dense model that a gate judges."""
    values = {quantity.gated: quantity.gated_value(record) for quantity in QUANTITIES.values()}
    if isinstance(record, Measurement):
        values["selection_macs"] = None if record.counted is None else record.counted.selection_flops // 2
        budgets = zip(record.layers, record.budgets, strict=True)
        values |= {f"kept_after_layer_{layer}": budget for layer, budget in budgets}
    return {name: value for name, value in values.items() if value is not None}


class _Stats(BaseModel):
    median: FiniteFloat
    rounds: int
    data: list[FiniteFloat] | None = None


class _Benchmark(BaseModel):
    fullname: str
    extra_info: dict[str, Any]
    stats: _Stats


class _File(BaseModel):
    machine_info: dict[str, Any]
    benchmarks: Annotated[list[_Benchmark], Field(min_length=1)]


def of_benchmarks(text: bytes, name: str) -> Subject:
    """The side of a pytest-benchmark file.

    Raises StoreError if the file is empty, not JSON, not of this kind, or contradicts itself.
    """
    try:
        file = _File.model_validate(parse_json(text))
    except ValidationError as error:
        where, message = first_problem(error)
        raise StoreError(f"{name} is no pytest-benchmark file with results: {where}: {message.lower()}") from error
    except ValueError as error:
        raise StoreError(f"{name} is {'not JSON' if text.strip() else 'empty'}: {error}") from error
    machine = file.machine_info
    cpu = machine["cpu"] if isinstance(machine.get("cpu"), dict) else {}
    identity = {key: machine.get(key) for key in _MACHINE} | {
        "cpu": cpu.get("brand_raw", cpu.get("brand")),  # older files of pytest-benchmark say `brand`
        "cpu_count": cpu.get("count"),
    }
    subject = Subject(name, identity, environment=machine)
    for benchmark in file.benchmarks:
        if benchmark.fullname in subject.evidence:
            raise StoreError(f"{name} contains {benchmark.fullname} twice: it was edited by hand")
        subject.evidence[benchmark.fullname] = _benchmark(benchmark, name)
    return subject


def _benchmark(benchmark: _Benchmark, name: str) -> dict[str, Evidence]:
    """The whole numbers of a benchmark, and its raw times."""
    where, stats = benchmark.fullname, benchmark.stats
    evidence: dict[str, Evidence] = {key: value for key, value in benchmark.extra_info.items() if type(value) is int}
    if stats.data is None:
        if not evidence:
            raise StoreError(
                f"{name} holds no raw times of {where}: write it with --benchmark-json or --benchmark-save-data"
            )
        return evidence
    if len(stats.data) != stats.rounds or abs(median(stats.data) - stats.median) > 1e-6 * abs(stats.median):
        raise StoreError(f"{name}: the times of {where} disagree with their own median or count: it was edited by hand")
    return evidence | {RUN_MS: Samples(tuple(1000 * seconds for seconds in stats.data))}


def _differences(base: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """How two tables differ; empty if they are equal."""
    names = [name for name in sorted(base.keys() | new.keys()) if base.get(name) != new.get(name)]
    return "; ".join(f"{name} ({base.get(name)!r} before, {new.get(name)!r} now)" for name in names)


def _counterpart(new: Subject, where: str, quantity: str) -> Evidence:
    if where in new.failed:
        raise MeasurementError(f"{where} failed in {new.name}: {new.failed[where]}")
    evidence = new.evidence.get(where, {})
    if quantity not in evidence:
        missing = f"{quantity} of {where}" if evidence else where
        raise MeasurementError(f"{new.name} lacks {missing}: measure all that the base has")
    return evidence[quantity]
