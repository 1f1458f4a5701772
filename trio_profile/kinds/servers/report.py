"""The report of a study of servers: whether pruning pays, up to which load, and what each arm does."""

from collections.abc import Callable, Iterator, Sequence

from trio_profile import units
from trio_profile.analysis.recommendation import POSSIBLE_LOSS
from trio_profile.findings.blocks import Block, Confidence, Entry, Page, Report, Sentences, Table, Terms, tabulate
from trio_profile.findings.doubts import PUBLISHED, blocks_of
from trio_profile.findings.study_page import fields_of, sessions_table
from trio_profile.kinds.servers import charts
from trio_profile.kinds.servers.advice import (
    NAMES,
    by_words,
    is_unpruned,
    load_word,
    loops_of,
    main_break_evens,
    recommendation,
)
from trio_profile.kinds.servers.document import (
    QUANTITIES,
    ArmAtLoad,
    AtLoad,
    ClientAtLoad,
    EndpointsDocument,
    EndpointsPreview,
    Quantity,
)
from trio_profile.kinds.servers.requests import ARMS, ServerFacts
from trio_profile.kinds.servers.study import Loop
from trio_profile.quantities.entries import NOTHING, speedup
from trio_profile.records.estimate import OverRounds

HEADS: dict[Quantity, str] = {
    **NAMES,
    "ttft_p50_ms": "TTFT p50",
    "ttft_p95_ms": "TTFT p95",
    "ttft_p99_ms": "TTFT p99",
    "total_ms": "total",
}
"""The quantities at the head of a column."""
_SERIOUS = (
    *("client saturated", "queueing at the client", "failed requests", "unequal answers", "prefix cache"),
    *("unanswered questions", "no right answers"),
)
"""The kinds of doubt under which a gain may be wrong by more than its interval."""


def report(document: EndpointsDocument) -> Report:
    """The report of a study of servers."""
    study = document.study
    software = dict.fromkeys(facts.software for facts in document.servers if facts.software)
    facts = ["one server" if study.pruned is None else "two servers", *software]
    facts += [units.number_of(study.rounds, "round"), f"at most {units.number_of(study.new_tokens, 'token')} an answer"]
    return Report(
        subject="Pruning",
        preposition="in a server of",
        model=document.model,
        facts=facts,
        pages=[build(document) for build in PAGES],
        data=document.model_dump_json(),
        confidence=[badge(document)],
    )


def preview_report(document: EndpointsPreview) -> Report:
    """The report of a dry run."""
    study = document.study
    questions = units.number_of(document.questions, "question")
    asked = f", and each server answers {questions} first" if document.questions else ""
    lines = [
        f"{units.number_of(len(study.loads), 'load')}: {', '.join(load.name for load in study.loads)}.",
        f"{units.number_of(document.segments, 'segment')} send at most {units.number_of(document.requests, 'request')} "
        f"to {study.dense}{f' and {study.pruned}' if study.pruned else ''}. Each session begins with four more, which "
        f"are not measured{asked}.",
        f"They take at most {units.duration(document.seconds)}. Making the pictures comes on top, and each segment may "
        f"wait up to three times {units.duration(study.timeout_seconds)} longer for answers that are late.",
    ]
    page = Page("preview", "Planned segments", "Nothing was sent.", [Sentences("", lines)])
    return Report("Dry run of endpoints", study.model or study.dense, [], [page])


def badge(document: EndpointsDocument) -> Confidence:
    """How far the findings can be trusted."""
    kinds = list(dict.fromkeys(doubt.kind for doubt in document.doubts))
    serious = [kind for kind in kinds if kind in _SERIOUS]
    if is_unpruned(document):
        return Confidence("low", f"nothing was pruned{''.join(f', {kind}' for kind in serious)}")
    risk = _loss_allowed(document)
    if risk is not None and (risk.level == "low" or not kinds):
        return risk
    if kinds:
        return Confidence("low" if serious else "medium", f"the study is doubted: {', '.join(serious or kinds)}")
    rounds = f"{units.number_of(min(one.rounds for one in document.loads), 'round')}, and nothing is doubted"
    if any(one.status == "inconclusive" for one in main_break_evens(document)):
        return Confidence("medium", f"{rounds}, but the noise allows more than one answer")
    return Confidence("high", rounds)


def _loss_allowed(document: EndpointsDocument) -> Confidence | None:
    """How far it can be trusted that pruning keeps the answers; None where it loses them, and without questions."""
    if document.answers is None or document.answers.lost:
        return None
    lost = document.answers.difference
    if level := sum(-lost.ci95[0] > limit for limit in POSSIBLE_LOSS):
        asked = units.number_of(lost.samples, "question")
        why = f"{asked} cannot exclude a loss of {units.score(-100 * lost.ci95[0])} points"
        return Confidence("medium" if level == 1 else "low", why)
    return None


def findings_page(document: EndpointsDocument) -> Page:
    """What to do, and the break-even of each quantity."""
    blocks: list[Block] = [
        Sentences("Recommendation", list(recommendation(document))),
        Sentences("What was found", list(_findings(document))),
    ]
    loops = loops_of(document)
    several: list[Loop] = [loop for loop in loops if sum(one.loop == loop for one in document.loads) > 1]
    blocks += [_break_even_table(document, loop) for loop in several]  # one load has no break-even
    blocks += [chart for loop in loops for chart in charts.gains(document, loop)]
    return Page(
        "endpoints",
        "Does pruning pay in this server?",
        "A gain is above 1 if pruning is better: throughput is pruned over dense, times are dense over pruned. In each "
        "round both arms were measured under each load, one after the other, in balanced order. A gain is made within "
        "a round, and its 95 % interval is over the rounds. The break-even is the load at which the gain crosses 1. "
        "Between two loads it is interpolated, so measure loads near it.",
        blocks,
    )


def _break_even_table(document: EndpointsDocument, loop: Loop) -> Table:
    """Where pruning pays under the loads of one loop: a row for all quantities of which the same is true."""
    about = by_words(document, [one for one in document.break_even if one.loop == loop])
    rows = [[Entry(", ".join(NAMES[name] for name in names)), Entry(text)] for text, names in about.items()]
    return Table(f"Break-even over {load_word(loop)}", ("", "pruning"), rows, prose=True, compact=True)


def loads_page(document: EndpointsDocument) -> Page:
    """What each arm does under each load."""
    blocks: list[Block] = []
    for loop in loops_of(document):
        at = [one for one in document.loads if one.loop == loop]
        blocks += [gain_table(at), *charts.curves(document, loop), arm_table(at)]
    terms = [
        ("throughput", "answered requests per second."),
        ("goodput", "answered requests per second whose first token came within --ttft-limit-ms."),
        ("TTFT p50, p95, p99", "the median, the 95th and the 99th percentile of the time to the first token."),
        ("TPOT", "the median time of each further token of an answer."),
        ("total", "the median time of the whole answer."),
        ("prompt, answer", "tokens of the prompt and of the answer, as the server reports them; means."),
    ]
    return Page(
        "loads",
        "Load by load",
        "Throughput counts answered requests. The time to the first token begins when a request was due: in the open "
        "loop when it arrived, in the closed loop when the answer before it was received. So a wait in the client "
        "counts. A percentile is computed within a segment. The value is the geometric mean over the rounds, or the "
        "mean if a round has 0.",
        [*blocks, Terms("Columns", terms, detail=True)],
        folded="Show what each server does under each load",
    )


def doubts_page(document: EndpointsDocument) -> Page:
    """What weakens the findings."""
    blocks = list(blocks_of(document.doubts))
    return Page("doubts", "Doubts", PUBLISHED, blocks or [Sentences("", ["Nothing is doubted."])])


def study_page(document: EndpointsDocument) -> Page:
    """What was asked, of whom, and from where."""
    where = document.environment
    asked = [*fields_of(document.study), ("client", f"{where.cpu}, {where.system}, Python {where.python}")]
    servers: dict[str, Callable[[ServerFacts], Entry]] = {
        "arm": lambda server: Entry(server.arm),
        "model": lambda server: Entry(server.model),
        "software": lambda server: Entry(server.software or "–"),
        "prompt without picture": lambda server: _count(server.text_tokens),
        "prompt with picture": lambda server: _count(server.prompt_tokens),
    }
    clients: dict[str, Callable[[ClientAtLoad], Entry]] = {
        "load": lambda client: Entry(client.load.name),
        "CPU of the client": lambda client: Entry(units.percent(client.cpu_share)),
        "CPU time of a request": lambda client: Entry(units.milliseconds(client.cpu_ms)),
        "event loop late": lambda client: Entry(units.milliseconds(client.lag_ms)),
        "sent late": lambda client: Entry(units.milliseconds(client.delay_ms)),
    }
    return Page(
        "study",
        "Study and client",
        "What was asked, and from where. Times hold for these servers under no other load.",
        [
            Terms("Asked", asked, detail=True),
            tabulate("Servers, as they say themselves", servers, document.servers, detail=True),
            tabulate("The client: the worst segment of each load", clients, document.clients, detail=True),
            sessions_table(document.sessions),
        ],
        folded="Show the study, the servers and the client",
    )


def gain_table(at: Sequence[AtLoad]) -> Table:
    """The gains under each load of one loop."""
    word = load_word(at[0].loop)
    columns: dict[str, Callable[[AtLoad], Entry]] = {word: _load}
    for name in QUANTITIES:
        if any(name in load.gains for load in at):
            columns[HEADS[name]] = lambda load, name=name: speedup(load.gains.get(name))
    return tabulate(f"Gain of pruning by {word}", columns, at)


def arm_table(at: Sequence[AtLoad]) -> Table:
    """What each arm does under each load of one loop."""
    word = load_word(at[0].loop)
    columns: dict[str, Callable[[tuple[AtLoad, str, ArmAtLoad]], Entry]] = {
        word: lambda row: _load(row[0]),
        "arm": lambda row: Entry(row[1], colour=0 if row[1] == "pruned" else None),
    }
    for name in QUANTITIES:
        if any(getattr(load.dense, name) for load in at):
            columns[HEADS[name]] = lambda row, name=name: _value(getattr(row[2], name))
    columns |= {
        "prompt": lambda row: _count(row[2].prompt_tokens),
        "answer": lambda row: _count(row[2].output_tokens),
        "requests": lambda row: _count(row[2].requests),
        "failed": lambda row: Entry(units.exact(row[2].errors), tone="loss" if row[2].errors else ""),
    }
    rows = [(load, arm, load.dense if arm == "dense" else load.pruned) for load in at for arm in ARMS]
    return tabulate(f"Each arm by {word}", columns, rows, keys=2, detail=True)


def _findings(document: EndpointsDocument) -> Iterator[str]:
    yield from _prompts(document)
    if (answers := document.answers) is not None:
        dense, pruned = (units.percent_within(one.value, one.ci95) for one in (answers.dense, answers.pruned))
        lost = units.points(answers.difference.value, answers.difference.ci95)
        asked = units.number_of(answers.difference.samples, "question")
        yield f"Of {asked} the dense server answers {dense} right, and the pruned one {pruned}: {lost}, paired."
    arms = [arm for one in document.loads for arm in (one.dense, one.pruned)]
    errors = sum(arm.errors for arm in arms)
    requests = units.number_of(sum(arm.requests for arm in arms), "request")
    yield f"{requests} measured; {units.exact(errors) if errors else 'none'} failed."
    for check in document.cache:
        text = units.times_within(check.speedup.value, check.speedup.ci95)
        caches = "caches pictures" if check.speedup.ci95[0] > 1 else "does not measurably cache pictures"
        yield f"The {check.arm} server {caches}: one repeated picture is answered {text} as fast as distinct ones."


def _prompts(document: EndpointsDocument) -> Iterator[str]:
    """How many tokens a prompt has, if both servers report it."""
    known = [[getattr(one, arm).prompt_tokens for one in document.loads] for arm in ARMS]
    dense, pruned = ([tokens for tokens in arm if tokens is not None] for arm in known)
    if dense and pruned:
        means = [units.plain(round(sum(arm) / len(arm), 1)) for arm in (dense, pruned)]
        share = document.retention
        kept = "" if share is None else f"; of a picture's tokens {units.percent(share)} stay"
        yield f"A prompt has {means[0]} tokens dense and {means[1]} pruned, as the servers report it{kept}."


def _load(at: AtLoad) -> Entry:
    return Entry(units.load(at.load), order=at.load)


def _count(value: float | None) -> Entry:
    """A number of tokens or requests, or a mean of such numbers."""
    if value is None:
        return NOTHING
    return Entry(units.exact(value) if isinstance(value, int) else units.plain(round(value, 1)))


def _value(estimate: OverRounds | None) -> Entry:
    if estimate is None:
        return NOTHING
    low, high = (charts.text_of(estimate.model_copy(update={"value": end})) for end in estimate.ci95)
    return Entry(charts.text_of(estimate), title=f"95 % interval {low} to {high}", order=estimate.value)


PAGES: tuple[Callable[[EndpointsDocument], Page], ...] = (findings_page, loads_page, doubts_page, study_page)
"""The pages of the report, in their order."""
