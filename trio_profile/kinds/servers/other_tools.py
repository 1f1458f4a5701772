"""A dense and a pruned server that AIPerf or GuideLLM measured: their ratios, and why no interval holds for them.

`profile_export_aiperf.json` of AIPerf 0.13 has one load. The JSON report of GuideLLM 0.8 has one for each of its
benchmarks. Both tools measure one server in a run.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from trio_profile import units
from trio_profile.errors import StudyError
from trio_profile.findings.blocks import Page, Report, Sentences, Table
from trio_profile.kinds.servers.advice import NAMES
from trio_profile.kinds.servers.document import RATES, Quantity
from trio_profile.kinds.servers.study import Load
from trio_profile.quantities.entries import NOTHING, Entry
from trio_profile.reading import parse_json, read_bytes
from trio_profile.records.documents import Document
from trio_profile.records.record import Record

AIPERF_FILE = "profile_export_aiperf.json"
"""The file that is read if a directory of AIPerf is named."""
_PERCENTILES: dict[Quantity, str] = {"ttft_p50_ms": "p50", "ttft_p95_ms": "p95", "ttft_p99_ms": "p99"}


class ToolRun(Record):
    """One server under one load, as another tool measured it.

    tool: its name and version.
    load: None if it is neither a concurrency nor a rate.
    start, end: in seconds since 1970.
    requests: those that were answered. errors: those that failed.
    prompt_tokens: mean, as the server reports it.
    values: by quantity. throughput in requests a second, `total_ms` as median.
    """

    tool: str
    url: str
    load: Load | None
    start: float
    end: float
    requests: int
    errors: int
    prompt_tokens: float | None
    values: dict[Quantity, float]


class ToolPair(Record):
    """Both servers under one load. gains: by quantity, how much better pruning is; above 1 it pays."""

    dense: ToolRun
    pruned: ToolRun
    gains: dict[Quantity, float]


class ToolsDocument(Document):
    """The document of `trio-profile show DENSE PRUNED --json`. pairs: one for each load."""

    pairs: tuple[ToolPair, ...]


def compare(dense: Path, pruned: Path) -> ToolsDocument:
    """Return the ratios of two exports.

    Raises StudyError if one cannot be read, if it has two runs under one load, or if they share no load.
    """
    of_dense, of_pruned = _by_place(dense), _by_place(pruned)
    if not (common := [place for place in of_dense if place in of_pruned]):
        places = " / ".join(map(", ".join, (of_dense, of_pruned)))
        raise StudyError(f"{dense} and {pruned} have no load in common: {places}; measure both alike")
    pairs = ((of_dense[place], of_pruned[place]) for place in common)
    return ToolsDocument(pairs=tuple(ToolPair(dense=a, pruned=b, gains=_gains(a, b)) for a, b in pairs))


def _by_place(path: Path) -> dict[str, ToolRun]:
    """The runs of an export by tool and load: `GuideLLM 0.8.1 at concurrency 2`."""
    runs: dict[str, ToolRun] = {}
    for run in read_runs(path):
        place = f"{run.tool} at {_name(run)}"
        if place in runs:
            raise StudyError(f"{path} has two runs of {place}; keep one benchmark a load")
        runs[place] = run
    return runs


def _gains(dense: ToolRun, pruned: ToolRun) -> dict[Quantity, float]:
    """Rates are pruned over dense, times dense over pruned. A value that is 0 has no ratio."""
    known: list[Quantity] = [name for name, value in dense.values.items() if value and pruned.values.get(name)]
    ratios: dict[Quantity, float] = {name: pruned.values[name] / dense.values[name] for name in known}
    return {name: ratio if name in RATES else 1 / ratio for name, ratio in ratios.items()}


def read_runs(path: Path) -> list[ToolRun]:
    """Return the runs of an export, one for each load. path: the file, or the directory of AIPerf.

    Raises StudyError if it cannot be read, or if it is of another tool.
    """
    file = path / AIPERF_FILE if path.is_dir() else path
    try:
        content = parse_json(read_bytes(file))
        if "aiperf_version" in content:
            return [_of_aiperf(content)]
        version = content["metadata"]["guidellm_version"]
        url = content["config"]["spec"]["backend"]["target"]
        return [_of_guidellm(version, url, benchmark) for benchmark in content["benchmarks"]]
    except OSError as error:
        raise StudyError(f"{file} cannot be read: {error.strerror}; name an export of AIPerf or GuideLLM") from error
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise StudyError(
            f"{file} is no export of AIPerf 0.13 or GuideLLM 0.8 ({type(error).__name__}: {error}); name "
            f"{AIPERF_FILE}, or the JSON report of GuideLLM"
        ) from error


def _of_aiperf(content: Mapping[str, Any]) -> ToolRun:
    settings, ttft = content["input_config"], content.get("time_to_first_token", {})
    phase = next(phase for phase in settings["phases"] if phase["kind"] == "profiling")
    answered = int(content["request_count"]["avg"])
    values: dict[Quantity, float | None] = {name: ttft.get(place) for name, place in _PERCENTILES.items()}
    values["throughput"] = content["request_throughput"]["avg"]
    values["total_ms"] = content["request_latency"]["p50"]
    return ToolRun(
        tool=f"AIPerf {content['aiperf_version']}",
        url=settings["endpoint"]["urls"][0],
        load=_load(phase.get("concurrency") if phase["type"] == "concurrency" else None, phase.get("rate")),
        start=datetime.fromisoformat(content["start_time"]).timestamp(),
        end=datetime.fromisoformat(content["end_time"]).timestamp(),
        requests=answered,
        errors=int(content["completed_request_count"]["avg"]) - answered,
        prompt_tokens=content.get("usage_prompt_tokens", {}).get("avg"),
        values=_known(values),
    )


def _of_guidellm(version: str, url: str, content: Mapping[str, Any]) -> ToolRun:
    """Its `prompt_token_count` adds the tokens of pictures to a prompt that has them already, so the text's is read."""
    metrics, strategy = content["metrics"], content["config"]["strategy"]
    ttft = (metrics["time_to_first_token_ms"]["successful"] or {}).get("percentiles", {})
    values: dict[Quantity, float | None] = {name: ttft.get(place) for name, place in _PERCENTILES.items()}
    values["throughput"] = metrics["requests_per_second"]["successful"]["mean"]
    values["total_ms"] = 1000 * metrics["request_latency"]["successful"]["median"]
    return ToolRun(
        tool=f"GuideLLM {version}",
        url=url,
        load=_load(1 if strategy["type_"] == "synchronous" else strategy.get("streams"), strategy.get("rate")),
        start=content["start_time"],
        end=content["end_time"],
        requests=metrics["request_totals"]["successful"],
        errors=metrics["request_totals"]["errored"],
        prompt_tokens=metrics["text"]["tokens"]["input"]["successful"]["mean"],
        values=_known(values),
    )


def _load(concurrency: int | None, rate: float | None) -> Load | None:
    if concurrency:
        return Load(loop="closed", value=concurrency)
    return Load(loop="open", value=rate) if rate else None


def _known(values: Mapping[Quantity, float | None]) -> dict[Quantity, float]:
    return {name: value for name, value in values.items() if value is not None}


def _name(run: ToolRun) -> str:
    return "another load" if run.load is None else run.load.name


def report(document: ToolsDocument) -> Report:
    """The ratios, and why no interval holds for them."""
    first = document.pairs[0].dense
    names: list[Quantity] = [name for name in NAMES if any(name in pair.gains for pair in document.pairs)]
    rows = [row for pair in document.pairs for row in _rows(pair, names)]
    columns = ["load", "", *(NAMES[name] for name in names), "prompt", "requests"]
    page = Page(
        "tools",
        f"What {first.tool} measured",
        "A gain is above 1 if pruning is better: throughput is pruned over dense, times are dense over pruned.",
        [Sentences("Why no interval holds", list(_sentences(document))), Table("Both servers", columns, rows, keys=2)],
    )
    urls = [first.url, document.pairs[0].pruned.url]
    return Report("Two servers", first.tool, urls, [page], preposition="measured by")


def _rows(pair: ToolPair, names: Sequence[Quantity]) -> Iterator[list[Entry]]:
    for arm, run in (("dense", pair.dense), ("pruned", pair.pruned)):
        tokens = NOTHING if run.prompt_tokens is None else Entry(units.plain(round(run.prompt_tokens, 1)))
        values = [_value(name, run.values.get(name)) for name in names]
        yield [Entry(_name(run)), Entry(arm), *values, tokens, Entry(str(run.requests))]
    gains = [Entry(units.times(pair.gains[name])) if name in pair.gains else NOTHING for name in names]
    yield [Entry(_name(pair.dense)), Entry("gain"), *gains, NOTHING, NOTHING]


def _value(name: Quantity, value: float | None) -> Entry:
    if value is None:
        return NOTHING
    return Entry(units.per_second(value) if name in RATES else units.milliseconds(value))


def _sentences(document: ToolsDocument) -> Iterator[str]:
    """Why the ratios have no interval, what else is doubtful, and what measures an interval."""
    first = document.pairs[0]
    apart = first.pruned.start - first.dense.end
    when = f"the pruned one {units.duration(apart)} after the dense one" if apart >= 0 else "both at the same time"
    if first.pruned.end <= first.dense.start:
        when = f"the dense one {units.duration(first.dense.start - first.pruned.end)} after the pruned one"
    yield (
        f"Each server was measured once under each load, {when}. What changes between two runs, in the machine and "
        "with each start of a server, is part of the ratio, and nothing in the files says how much it is. An interval "
        "over the requests of one run does not hold it."
    )
    if failed := sum(run.errors for pair in document.pairs for run in (pair.dense, pair.pruned)):
        yield f"{units.number_of(failed, 'request')} failed, and the times are those of the others."
    if first.dense.prompt_tokens is not None and first.dense.prompt_tokens == first.pruned.prompt_tokens:
        yield "Both servers report equally long prompts: nothing was pruned, or they report the prompt before pruning."
    loads = [pair.dense.load for pair in document.pairs if pair.dense.load is not None]
    options = [
        f"{option} {','.join(f'{load.value:g}' for load in loads if load.loop == loop)}"
        for loop, option in (("closed", "--concurrency"), ("open", "--rate"))
        if any(load.loop == loop for load in loads)
    ]
    servers = f"--dense {first.dense.url} --pruned {first.pruned.url}"
    yield f"To have an interval: trio-profile endpoints {servers} {' '.join(options)}"
