"""Suites: the benchmarks, methods and retentions of a paper's accuracy tables, as tasks of lmms-eval.

A suite is one YAML file: a built-in one in `data/suites/`, or one of the user's. docs/how-to/evaluation.md has its
format.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from trio_profile.errors import ClaimsError, StudyError
from trio_profile.inputs import catalogue
from trio_profile.kinds.evaluation.document import Benchmark, PrintedAverage
from trio_profile.records import yaml_source as yaml
from trio_profile.records.record import Record
from trio_profile.records.study import Share, Study
from trio_profile.records.yaml_source import Source

BUILTIN = Path(__file__).parents[2] / "data" / "suites"
"""The directory of the built-in suites."""
METHODS, RETENTIONS = ("trio",), (0.333,)
"""The methods and retentions of an evaluation without a suite."""
Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[\w.+-]+$")]


class SuiteBenchmark(Record):
    """One benchmark, which makes a column of the table. The other fields are those of `Benchmark`.

    printed: what the paper calls it, if not by its name here.
    needs: what must be downloaded or set before its task can run.
    """

    task: Text
    metrics: Annotated[tuple[Annotated[str, Field(pattern="^[^,]+,[^,]+$")], ...], Field(min_length=1)]
    scale: Annotated[float, Field(gt=0)] = 1.0
    printed: str = ""
    differs: str = ""
    needs: tuple[Text, ...] = ()


class SuiteTable(Record):
    """One table of the paper: one model.

    setting: what else the paper sets, in one sentence.
    benchmarks: names of the columns in the paper's order.
    averages: the printed averages over all benchmarks in per cent, by retention and method. A method need not be one of
        `methods`.
    """

    setting: str = ""
    benchmarks: Annotated[tuple[Text, ...], Field(min_length=1)]
    retentions: Annotated[tuple[Share, ...], Field(min_length=1)]
    methods: Annotated[tuple[Text, ...], Field(min_length=1)]
    averages: dict[Share, dict[str, Annotated[float, Field(gt=0, le=1000)]]] = Field(default_factory=dict)


class Suite(Record):
    """A suite.

    benchmarks: by the head of their column.
    tables: by name.
    """

    benchmarks: Annotated[dict[Name, SuiteBenchmark], Field(min_length=1)]
    tables: Annotated[dict[Name, SuiteTable], Field(min_length=1)]


class Chosen(NamedTuple):
    """One table of a suite.

    name: of the suite with its table: `trio:llava-1.5-7b`.
    """

    name: str
    suite: Suite
    table: SuiteTable

    def columns(self) -> tuple[Benchmark, ...]:
        """Return the columns of the table."""
        known = {name: self.suite.benchmarks[name].model_dump(exclude={"needs"}) for name in self.table.benchmarks}
        return tuple(
            Benchmark(**{**known[name], "name": name, "printed": known[name]["printed"] or name}) for name in known
        )

    def printed(self, tasks: Collection[str]) -> tuple[PrintedAverage, ...]:
        """Return the averages that the paper prints, as shares of dense.

        tasks: those that are asked. Without all benchmarks of the table there is nothing to compare: it is empty.
        """
        if not {column.task for column in self.columns()} <= set(tasks):
            return ()
        return tuple(
            PrintedAverage(method=method, retention=retention, average=average / 100)
            for retention, averages in self.table.averages.items()
            for method, average in averages.items()
        )


def builtin() -> list[str]:
    """Return the names of the built-in suites."""
    return sorted(path.stem for path in BUILTIN.glob("*.yaml"))


def chosen(study: Study) -> Chosen | None:
    """Return the table that a study names; None if it names no suite.

    Without a table's name it is the only one. Raises StudyError if there is no such suite or table, if it has several
    and none is named, or if the file is not valid.
    """
    if study.suite is None:
        return None
    name, named = _parts(study.suite)
    suite = read(name)
    if not named and len(suite.tables) > 1:
        choices = ", ".join(f"--suite {name}:{table}" for table in suite.tables)
        raise StudyError(f"suite {name!r} has {len(suite.tables)} tables; name one: {choices}")
    table = named or next(iter(suite.tables))
    if table not in suite.tables:
        raise StudyError(f"suite {name!r} has no table {table!r}; choose {', '.join(suite.tables)}")
    return Chosen(f"{Path(name).stem}:{table}", suite, suite.tables[table])


def prepare(study: Study) -> Study:
    """Return the study of an evaluation with its suite's tasks, methods and retentions, where it names none.

    The suite then names its table, so that a later session asks the same. Raises StudyError if the study has no tasks,
    or if its model has no processor. Raises as `chosen` does.
    """
    suite, methods, retentions = chosen(study), METHODS, RETENTIONS
    if suite is not None:
        methods, retentions = suite.table.methods, suite.table.retentions
        file, _ = _parts(study.suite or "")
        where = file if file in builtin() else str(Path(file).resolve())
        tasks = study.tasks or tuple(dict.fromkeys(column.task for column in suite.columns()))
        study = study.model_copy(update={"suite": f"{where}:{suite.name.rpartition(':')[2]}", "tasks": tasks})
    if not study.tasks:
        raise StudyError("no task is named: give --tasks pope,gqa, or --suite trio:llava-1.5-7b")
    model = catalogue.models().get(study.model)
    if model is not None and not model.has_processor:
        raise StudyError(f"model {study.model!r} has no processor to be asked with; name a checkpoint, --model DIR")
    return study.model_copy(update={"methods": study.methods or methods, "retentions": study.retentions or retentions})


def read(name: str) -> Suite:
    """Return a built-in suite, or the suite in a file.

    Raises StudyError with the file, the line, the field and the fault.
    """
    if name in builtin():
        path = BUILTIN / f"{name}.yaml"
    else:
        path = Path(name)
        if not name or (path.suffix not in (".yaml", ".yml") and not yaml.exists(path)):
            raise StudyError(f"unknown suite {name[:80]!r}: choose {', '.join(builtin())}, or name a YAML file")
    try:
        return _checked(yaml.read(path, "suite"))
    except ClaimsError as error:
        raise StudyError(f"suite {error}") from error


def _checked(source: Source) -> Suite:
    """Return the suite of a parsed file. Raises ClaimsError at the first fault."""
    suite = source.record(Suite, source.tree)
    for name, table in suite.tables.items():
        place = ("tables", name)
        for number, benchmark in enumerate(table.benchmarks):
            if benchmark not in suite.benchmarks:
                source.refuse(
                    (*place, "benchmarks", number),
                    f"{benchmark!r} is none of the file's benchmarks; known are {', '.join(suite.benchmarks)}",
                )
        if len(set(table.benchmarks)) < len(table.benchmarks):
            source.refuse((*place, "benchmarks"), "one stands twice; name each benchmark once")
    return suite


def _parts(suite: str) -> tuple[str, str]:
    """Return the two parts of `NAME:TABLE`; the second is empty if it is not given. A path may contain a colon."""
    name, colon, table = suite.rpartition(":")
    return (name, table) if colon and "/" not in table else (suite, "")
