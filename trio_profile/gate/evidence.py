"""Compare two studies, or two pytest-benchmark files: read the quantities of each side, and judge them.

A study gives each cell's time over the dense model's, measured in turn. The dense model is the common reference of both
studies. The ratio of the two ratios shows how the method changed, and the machine cancels out. A pytest-benchmark file
gives the ratios that a benchmark stored in `extra_info`, measured in turn with a base; without them it gives raw times.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from pydantic import BaseModel, Field, FiniteFloat, TypeAdapter, ValidationError

from trio_profile.analysis.gate import Command
from trio_profile.analysis.times import MEASURED, speedup_centres, spent_seconds
from trio_profile.errors import MeasurementError, StoreError
from trio_profile.gate.verdict import MAX_RATIO, ONE_PROCESS, Evidence, Measured, Samples, Summary, Verdict, judge
from trio_profile.quantities.registry import QUANTITIES
from trio_profile.reading import parse_json
from trio_profile.records.contents import Contents
from trio_profile.records.differences import changed_input
from trio_profile.records.files import STUDY
from trio_profile.records.schema import Dense, Measurement, Session, Study
from trio_profile.records.study import EFFORT, MOST_PROCESSES, PROCESSES
from trio_profile.stats.intervals import machine_spread, median

RUN_MS = "run_ms"
"""The raw times of a benchmark."""
_NEVER = 0.001
"""No interval becomes as narrow as this, so a study ends only when its time is spent."""
_MACHINE = ("machine", "system", "python_implementation", "python_version")
_NOT_THE_WORK = {"methods", "retentions", "picture", *EFFORT}
"""Fields of a study that may differ. They say which cells it has, how long they are sampled and what is kept of the
picture, not what a cell is."""


@dataclass
class Subject:
    """One side of the comparison.

    name: of the study or file.
    kind: what it is, for messages.
    asked: the settings, which must be equal on both sides.
    identity: the machine, which must be equal unless the user allows another one.
    environment, study, sessions: as stored, for the output.
    processes: how many processes timed the study.
    seconds: how long they took for a block of cells.
    evidence: the measurement of each quantity, by cell or benchmark.
    failed: cells that failed, with the reason.
    weak: (cell or benchmark, quantity) that are judged only if the user names the quantity.
    """

    name: str
    kind: str
    asked: dict[str, Any]
    identity: dict[str, Any]
    environment: dict[str, Any]
    study: dict[str, Any] | None = None
    sessions: tuple[Session, ...] = ()
    processes: int = 0
    seconds: float = 0.0
    evidence: dict[str, dict[str, Evidence]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    weak: set[tuple[str, str]] = field(default_factory=set)


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
    if base.kind != new.kind:
        raise MeasurementError(f"{base.name} is a {base.kind} and {new.name} a {new.kind}: name two of one kind")
    if differ := _differences(base.asked, new.asked):
        raise MeasurementError(f"{new.name} and {base.name} have different settings: {'; '.join(differ)}")
    if not other_environment and (differ := _differences(base.identity, new.identity)):
        raise MeasurementError(
            f"{new.name} comes from another environment: {'; '.join(differ)}; "
            "measure both on the same one, or give --allow-other-environment"
        )
    if changed := _changed_input(base, new):
        raise MeasurementError(f"{changed}, and {new.name} was measured with the changed file: use one for both")
    _require_known(base, quantities)
    verdicts = [
        judge(quantity, where, seen, _counterpart(new, where, quantity), max_ratio)
        for where, evidence in base.evidence.items()
        for quantity, seen in evidence.items()
        if (quantity in quantities if quantities else (where, quantity) not in base.weak)
    ]
    if not verdicts:
        raise MeasurementError(f"{base.name} contains nothing to compare: measure it again")
    return verdicts


def _changed_input(base: Subject, new: Subject) -> str | None:
    """How a file that was measured differs between two studies; None if none differs, or if none is known."""
    if base.study is None or new.study is None:
        return None
    now = {name: digest for session in reversed(new.sessions) for name, digest in session.inputs.items()}
    return changed_input(Study.model_validate(base.study), base.sessions, now, Path(base.name))


def of_study(contents: Contents, name: str) -> Subject:
    """The side of a study: its cells and its dense model. Raises StoreError if the study is not finished.

    A cell that failed is not missing.
    """
    study = contents.study
    unfinished = [
        cell for cell in study.cells() if (seen := contents.cells.get(cell.id)) is None or seen.status == "counted"
    ]
    if unfinished or contents.dense is None:
        what = "the dense model"
        if contents.dense is not None:
            missing = unfinished[0]
            of_it = "the times of " if missing.id in contents.cells else ""
            what = f"{of_it}{missing.variant} at {missing.retention:g}"
        dropped = f" ({contents.dropped[0]})" if contents.dropped else ""
        again = f"trio-profile {study.verb} --study {quote(f'{name}/{STUDY}')} --out {quote(name)}"
        raise StoreError(f"{name} lacks {what}{dropped}: finish it with `{again}`")
    subject = Subject(
        name=name,
        kind="study",
        asked=study.model_dump(mode="json", exclude=_NOT_THE_WORK),
        identity=contents.environment.identity,
        environment=contents.environment.model_dump(mode="json"),
        study=study.model_dump(mode="json"),
        sessions=tuple(contents.sessions),
        processes=len({measured.session for measured in contents.rounds}),
        seconds=spent_seconds(contents) / max(len(study.blocks()), 1),
        evidence={"dense": _exact(contents.dense)},
    )
    # With several threads, CPU time contains the time that they wait for each other.
    one_thread = contents.environment.device_name == "cpu" and contents.environment.cpu_threads == 1
    times = (*MEASURED, *(("cpu_ms",) if one_thread else ()))
    machine = machine_spread(study.device)
    done = [measurement for measurement in contents.measurements if measurement.status == "done"]
    centres = {time: speedup_centres(done, time, machine) for time in times}
    for measurement in contents.measurements:
        where = f"{measurement.cell.variant} at {measurement.cell.retention:g}"
        if measurement.status != "done":
            subject.failed[where] = measurement.reason or "no reason was recorded"
        else:
            timed = {
                time: found[measurement.cell.id] for time, found in centres.items() if measurement.cell.id in found
            }
            subject.evidence[where] = {
                f"{time.removesuffix('_ms')}_over_dense": Measured(centre.inverse(), machine)
                for time, centre in timed.items()
            }
            subject.evidence[where] |= _exact(measurement)
            if measurement.counted is not None:
                subject.evidence[where]["selection_macs"] = measurement.counted.selection_flops // 2
            for layer, budget in zip(measurement.layers, measurement.budgets, strict=True):
                subject.evidence[where][f"kept_after_layer_{layer}"] = budget
    return subject


def _exact(record: Measurement | Dense) -> dict[str, Evidence]:
    """Return the exact quantities of a cell or of the dense model that a gate judges."""
    values = {quantity.gated: quantity.gated_value(record) for quantity in QUANTITIES.values()}
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


_SUMMARY = TypeAdapter(Summary)


def of_benchmarks(text: bytes, name: str) -> Subject:
    """The side of a pytest-benchmark file.

    Raises StoreError if the file is empty, not JSON, not of this kind, or contradicts itself.
    """
    try:
        file = _File.model_validate(parse_json(text))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise StoreError(f"{name} is no pytest-benchmark file with results: {where}: {first['msg'].lower()}") from error
    except ValueError as error:
        raise StoreError(f"{name} is {'not JSON' if text.strip() else 'empty'}: {error}") from error
    machine = file.machine_info
    cpu = machine["cpu"] if isinstance(machine.get("cpu"), dict) else {}
    subject = Subject(
        name=name,
        kind="pytest-benchmark file",
        asked={},
        identity={
            **{field: machine.get(field) for field in _MACHINE},
            "cpu": cpu.get("brand_raw"),
            "cpu_count": cpu.get("count"),
        },
        environment=machine,
    )
    for benchmark in file.benchmarks:
        if benchmark.fullname in subject.evidence:
            raise StoreError(f"{name} contains {benchmark.fullname} twice: it was edited by hand")
        subject.evidence[benchmark.fullname] = _benchmark(benchmark, subject)
    return subject


def _benchmark(benchmark: _Benchmark, subject: Subject) -> dict[str, Evidence]:
    where, stats = benchmark.fullname, benchmark.stats
    found: dict[str, Evidence] = {}
    for quantity, value in benchmark.extra_info.items():
        if isinstance(value, int) and not isinstance(value, bool):
            found[quantity] = value
        elif isinstance(value, dict) and {"median", "ci95", "samples"} <= value.keys():
            found[quantity] = _ratio(quantity, value, where, subject.name)
    interleaved = any(isinstance(value, Summary) for value in found.values())
    if stats.data is None:
        if not found:
            raise StoreError(
                f"{subject.name} holds no raw times of {where}: write it with --benchmark-json or --benchmark-save-data"
            )
        return found
    if len(stats.data) != stats.rounds or abs(median(stats.data) - stats.median) > 1e-6 * abs(stats.median):
        raise StoreError(
            f"{subject.name}: the times of {where} disagree with their own median or count: it was edited by hand"
        )
    found[RUN_MS] = Samples(tuple(1000 * seconds for seconds in stats.data))
    if interleaved:
        subject.weak.add((where, RUN_MS))
    return found


def _ratio(quantity: str, value: dict[str, Any], where: str, name: str) -> Summary:
    try:
        return _SUMMARY.validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        raise StoreError(f"{name}: {quantity} of {where}: {first['msg'].lower()}") from error


def _differences(base: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return how two tables differ."""
    names = sorted(base.keys() | new.keys())
    return [
        f"{name} ({base.get(name)!r} before, {new.get(name)!r} now)"
        for name in names
        if base.get(name) != new.get(name)
    ]


def commands(base: Subject, new: Subject, verdicts: Sequence[Verdict]) -> tuple[Command, ...]:
    """Return the commands that measure studies longer, so that what is inconclusive is decided.

    It is empty if nothing is inconclusive, or if no time would decide.
    """
    longer = max((verdict.longer or 0.0 for verdict in verdicts), default=0.0)
    needs_processes = any(verdict.note == ONE_PROCESS for verdict in verdicts)
    efforts: list[tuple[Subject, str]] = []
    for side in (base, new):
        if needs_processes and side.processes == 1:
            efforts.append((side, f"--processes {PROCESSES}"))
        elif longer:
            efforts.append((side, _effort(side, longer)))
    return tuple(
        Command(
            side=side.name,
            code=tuple(dict.fromkeys(session.environment.commit or session.version for session in side.sessions)),
            command=f"trio-profile {side.study['verb']} --study {quote(f'{side.name}/{STUDY}')} {effort} "
            f"--out {quote(side.name)}",
        )
        for side, effort in efforts
        if side.study is not None
    )


def _effort(side: Subject, longer: float) -> str:
    """Return the options with which a study is measured until it is so many times as long."""
    assert side.study is not None
    if side.study["processes"] is None:
        return f"--until {_NEVER} --seconds {ceil(longer * side.seconds)}"
    processes = min(ceil(longer * side.study["processes"]), MOST_PROCESSES)
    return f"--processes {processes} --seconds {ceil(longer * side.study['seconds'])}"


def _require_known(base: Subject, quantities: Sequence[str]) -> None:
    known = sorted({quantity for evidence in base.evidence.values() for quantity in evidence})
    for quantity in quantities:
        if quantity not in known:
            raise MeasurementError(f"quantity {quantity!r} is not in {base.name}; it holds {', '.join(known)}")


def _counterpart(new: Subject, where: str, quantity: str) -> Evidence:
    if where in new.failed:
        raise MeasurementError(f"{where} failed in {new.name}: {new.failed[where]}")
    if where not in new.evidence:
        raise MeasurementError(f"{new.name} lacks {where}: measure all that the base has")
    if quantity not in new.evidence[where]:
        raise MeasurementError(f"{new.name} lacks {quantity} of {where}: measure all that the base has")
    return new.evidence[where][quantity]
