"""The report of a study of servers: whether pruning pays, up to which load, and what each arm does."""

from collections.abc import Callable, Iterator, Sequence

from trio_profile import units
from trio_profile.analysis.endpoints import (
    QUANTITIES,
    RATES,
    ArmAtLoad,
    AtLoad,
    EndpointsDocument,
    Quantity,
)
from trio_profile.findings import endpoint_charts
from trio_profile.findings.blocks import Block, Confidence, Entry, Page, Report, Sentences, Table, Terms
from trio_profile.findings.doubts import PUBLISHED, blocks_of
from trio_profile.findings.endpoint_advice import main_break_evens, recommendation
from trio_profile.findings.endpoint_words import HEADS, NAMES, load_words, loops_of, pays, sentence
from trio_profile.findings.entries import NOTHING, speedup
from trio_profile.findings.study_page import sessions_table
from trio_profile.records.endpoint_study import Loop
from trio_profile.records.estimate import OverRounds
from trio_profile.records.requests import ARMS

_SERIOUS = ("client saturated", "queueing at the client", "failed requests", "unequal answers", "prefix cache")
"""The kinds of doubt under which a gain may be wrong by more than its interval."""


def report(document: EndpointsDocument) -> Report:
    """The report of a study of servers."""
    study = document.study
    servers = "one server" if study.pruned is None else "two servers"
    facts = [servers, *(facts.software for facts in document.servers[:1] if facts.software)]
    facts += [units.number_of(study.rounds, "round"), f"at most {units.number_of(study.new_tokens, 'token')} an answer"]
    return Report(
        subject="Pruning",
        preposition="in a server of",
        model=document.model,
        facts=facts,
        pages=[build(document) for build in PAGES],
        data=document.model_dump_json(),
        confidence=badge(document),
    )


def badge(document: EndpointsDocument) -> Confidence | None:
    """How far the findings can be trusted."""
    kinds = list(dict.fromkeys(doubt.kind for doubt in document.doubts))
    serious = [kind for kind in kinds if kind in _SERIOUS]
    if serious:
        return Confidence("low", f"the study is doubted: {', '.join(serious)}")
    if kinds:
        return Confidence("medium", f"the study is doubted: {', '.join(kinds)}")
    rounds = f"{units.number_of(min(one.rounds for one in document.loads), 'round')}, and nothing is doubted"
    if any(one.status == "inconclusive" for one in main_break_evens(document)):
        return Confidence("medium", f"{rounds}, but the noise allows more than one answer")
    return Confidence("high", rounds)


def findings_page(document: EndpointsDocument) -> Page:
    """What to do, and the break-even of each quantity."""
    blocks: list[Block] = [
        Sentences("Recommendation", list(recommendation(document))),
        Sentences("What was found", list(_found(document))),
        *(break_even_table(document, loop) for loop in loops_of(document) if _several(document, loop)),
        *(chart for loop in loops_of(document) for chart in endpoint_charts.gains(document, loop)),
    ]
    return Page(
        "endpoints",
        "Does pruning pay in this server?",
        "A gain is above 1 if pruning is better: throughput is pruned over dense, times are dense over pruned. In each "
        "round both arms were measured under each load, one after the other, in balanced order. A gain is made within "
        "a round, and its 95 % interval is over the rounds. The break-even is the load at which the gain crosses 1. "
        "Between two loads it is interpolated, so measure loads near it.",
        blocks,
    )


def loads_page(document: EndpointsDocument) -> Page:
    """What each arm does under each load."""
    blocks: list[Block] = []
    for loop in loops_of(document):
        at = [one for one in document.loads if one.loop == loop]
        blocks += [gain_table(at), *endpoint_charts.curves(document, loop), arm_table(at)]
    blocks.append(columns())
    return Page(
        "loads",
        "Load by load",
        "Throughput counts answered requests. The time to the first token begins when a request was due: in the open "
        "loop when it arrived, in the closed loop when the answer before it was received. So a wait in the client "
        "counts. A percentile is computed within a segment. The value is the geometric mean over the rounds, or the "
        "mean if a round has 0.",
        blocks,
    )


def doubts_page(document: EndpointsDocument) -> Page:
    """What weakens the findings."""
    found = list(blocks_of(document.doubts))
    return Page("doubts", "Doubts", PUBLISHED, found or [Sentences("", ["Nothing is doubted."])])


def study_page(document: EndpointsDocument) -> Page:
    """What was asked, of whom, and from where."""
    study, where = document.study, document.environment
    items = [
        ("dense", study.dense),
        ("pruned", study.pruned or "the same server"),
        ("fields of every request", study.body or ""),
        ("fields of pruned requests", study.pruned_body or ""),
        ("pictures", study.pictures or "drawn, each shown once"),
        ("frames of a video", units.exact(study.frames) if study.frames > 1 else ""),
        ("prompt", study.prompt or "the default"),
        ("closed loop, under way", ", ".join(units.load(value) for value in study.concurrency or ())),
        ("open loop, a second", ", ".join(units.load(value) for value in study.rates)),
        ("a segment", f"{units.number_of(study.requests, 'request')} or {units.duration(study.segment_seconds)}"),
        ("rounds", units.exact(study.rounds)),
        ("limit of the first token", units.milliseconds(study.ttft_limit_ms) if study.ttft_limit_ms else ""),
        ("seed", str(study.seed)),
        ("client", f"{where.cpu}, {where.system}, Python {where.python}"),
    ]
    return Page(
        "study",
        "Study and client",
        "What was asked, and from where. Times hold for these servers under no other load.",
        [
            Terms("Asked", [(term, text) for term, text in items if text], detail=True),
            servers_table(document),
            client_table(document),
            sessions_table(document.sessions),
        ],
    )


def _found(document: EndpointsDocument) -> Iterator[str]:
    for one in document.break_even:
        if one.quantity in RATES and one.measured is not None and one.measured[0] < one.measured[1]:
            yield sentence(one)
    for loop in loops_of(document):
        at = [one for one in document.loads if one.loop == loop and "throughput" in one.gains]
        if len(at) > 1:
            yield f"{_gain_at(at[0])}. {_gain_at(at[-1])}."
        elif at:
            yield f"{_gain_at(at[0])}."
    yield from _prompts(document)
    errors = sum(one.dense.errors + one.pruned.errors for one in document.loads)
    requests = sum(one.dense.requests + one.pruned.requests for one in document.loads)
    yield f"{units.number_of(requests, 'request')} measured; {units.exact(errors) if errors else 'none'} failed."
    for check in document.cache:
        text = units.times_within(check.speedup.value, check.speedup.ci95)
        caches = "caches pictures" if check.speedup.ci95[0] > 1 else "does not measurably cache pictures"
        yield f"The {check.arm} server {caches}: one repeated picture is answered {text} as fast as distinct ones."


def _gain_at(one: AtLoad) -> str:
    gain = one.gains["throughput"]
    return f"Throughput at {load_words(one.loop)} {units.load(one.load)}: {units.times_within(gain.value, gain.ci95)}"


def _prompts(document: EndpointsDocument) -> Iterator[str]:
    dense, pruned = (
        [tokens for one in document.loads if (tokens := getattr(one, arm).prompt_tokens) is not None] for arm in ARMS
    )
    if dense and pruned:
        means = [units.plain(round(sum(arm) / len(arm), 1)) for arm in (dense, pruned)]
        share = document.retention
        kept = "" if share is None else f"; of a picture's tokens {units.percent(share)} stay"
        yield f"A prompt has {means[0]} tokens dense and {means[1]} pruned, as the servers report it{kept}."


def break_even_table(document: EndpointsDocument, loop: Loop) -> Table:
    """The break-even of each quantity."""
    rows = [[Entry(NAMES[one.quantity]), Entry(pays(one))] for one in document.break_even if one.loop == loop]
    return Table(f"Break-even over {load_words(loop)}", ("", "pruning"), rows, prose=True, compact=True)


def gain_table(at: Sequence[AtLoad]) -> Table:
    """The gains under each load of one loop."""
    quantities: list[Quantity] = [name for name in QUANTITIES if any(name in one.gains for one in at)]
    rows = [
        [Entry(units.load(one.load), order=one.load), *(speedup(one.gains.get(name)) for name in quantities)]
        for one in at
    ]
    caption = f"Gain of pruning by {load_words(at[0].loop)}"
    return Table(caption, (load_words(at[0].loop), *(HEADS[name] for name in quantities)), rows)


def arm_table(at: Sequence[AtLoad]) -> Table:
    """What each arm does under each load of one loop."""
    quantities: list[Quantity] = [name for name in QUANTITIES if any(getattr(one.dense, name) for one in at)]
    columns = (
        load_words(at[0].loop),
        "arm",
        *(HEADS[name] for name in quantities),
        "prompt",
        "answer",
        "requests",
        "failed",
    )
    rows = [_arm_row(one, arm, getattr(one, arm), quantities) for one in at for arm in ARMS]
    return Table(f"Each arm by {load_words(at[0].loop)}", columns, rows, keys=2, detail=True)


def columns() -> Terms:
    """What stands in each column."""
    ttft = "of the time to the first token"
    items = [
        ("throughput", "answered requests per second."),
        ("goodput", "answered requests per second whose first token came within --ttft-limit-ms."),
        ("TTFT p50, p95, p99", f"the median, the 95th and the 99th percentile {ttft}."),
        ("TPOT", "the median time of each further token of an answer."),
        ("total", "the median time of the whole answer."),
        ("prompt, answer", "tokens of the prompt and of the answer, as the server reports them; means."),
    ]
    return Terms("Columns", items, detail=True)


def _several(document: EndpointsDocument, loop: Loop) -> bool:
    """Whether a loop has several loads. One load has no break-even."""
    return sum(one.loop == loop for one in document.loads) > 1


def _arm_row(at: AtLoad, name: str, arm: ArmAtLoad, quantities: Sequence[Quantity]) -> list[Entry]:
    return [
        Entry(units.load(at.load), order=at.load),
        Entry(name, colour=0 if name == "pruned" else None),
        *(_value(getattr(arm, quantity)) for quantity in quantities),
        *(
            NOTHING if one is None else Entry(units.plain(round(one, 1)))
            for one in (arm.prompt_tokens, arm.output_tokens)
        ),
        Entry(units.exact(arm.requests)),
        Entry(units.exact(arm.errors), tone="loss" if arm.errors else ""),
    ]


def _value(found: OverRounds | None) -> Entry:
    if found is None:
        return NOTHING
    text = units.per_second if found.unit == "/s" else units.milliseconds
    low, high = map(text, found.ci95)
    return Entry(text(found.value), title=f"95 % interval {low} to {high}", order=found.value)


def servers_table(document: EndpointsDocument) -> Table:
    """What each server says of itself, session by session."""
    rows = [
        [
            Entry(facts.arm),
            Entry(facts.model),
            Entry(facts.software or "–"),
            *(NOTHING if one is None else Entry(units.exact(one)) for one in (facts.text_tokens, facts.prompt_tokens)),
        ]
        for facts in document.servers
    ]
    columns = ("arm", "model", "software", "prompt without picture", "prompt with picture")
    return Table("Servers, as they say themselves", columns, rows, detail=True)


def client_table(document: EndpointsDocument) -> Table:
    """How busy and how late the client was, under each load."""
    rows = [
        [
            Entry(one.load.name),
            Entry(units.percent(one.cpu_share)),
            Entry(units.milliseconds(one.cpu_ms)),
            Entry(units.milliseconds(one.lag_ms)),
            Entry(units.milliseconds(one.delay_ms)),
        ]
        for one in document.clients
    ]
    columns = ("load", "CPU of the client", "CPU time of a request", "event loop late", "sent late")
    return Table("The client: the worst segment of each load", columns, rows, detail=True)


PAGES: tuple[Callable[[EndpointsDocument], Page], ...] = (findings_page, loads_page, doubts_page, study_page)
