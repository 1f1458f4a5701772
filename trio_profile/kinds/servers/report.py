"""The report of a study of servers: whether pruning pays, up to which load, and what each arm does."""

from collections.abc import Callable, Iterator, Sequence

from trio_profile import units
from trio_profile.kinds.servers.advice import by_loop, load_word
from trio_profile.kinds.servers.document import (
    ArmAtLoad,
    AtLoad,
    EndpointsDocument,
    EndpointsPreview,
    LoadBreakEven,
)
from trio_profile.kinds.servers.quantities import QUANTITIES
from trio_profile.kinds.servers.requests import ARMS
from trio_profile.kinds.servers.study import Loop
from trio_profile.quantities.entries import NOTHING, speedup
from trio_profile.records.estimate import OverRounds, PerSecond
from trio_profile.report import doubts
from trio_profile.report.blocks import Block, Entry, Page, Report, Sentences, Table, Terms, tabulate
from trio_profile.report.page import fields_of, sessions_table, unfinished
from trio_profile.text import listed


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
        pages=[findings_page(document), loads_page(document), doubts.page(document.doubts), study_page(document)],
        data=document.model_dump_json(),
        banner=unfinished(document.pairs_left, study.pairs, "segment pair"),
    )


def preview_report(document: EndpointsPreview) -> Report:
    """The report of a dry run."""
    study, count = document.study, units.number_of(document.questions, "question")
    questions = f" Each server answers {count} first." if document.questions else ""
    lines = [
        f"{units.number_of(len(study.loads), 'load')}: {', '.join(load.name for load in study.loads)}.",
        f"{units.number_of(document.segments, 'segment')} send at most {units.number_of(document.requests, 'request')} "
        f"to {' and '.join(filter(None, (study.dense, study.pruned)))}. Each session begins with four more, which are "
        f"not measured.{questions}",
        f"They take at most {units.duration(document.seconds)}. Making the pictures comes on top, and each segment may "
        f"wait up to three times {units.duration(study.timeout_seconds)} longer for answers that are late.",
    ]
    page = Page("preview", "Planned segments", "Nothing was sent.", [Sentences("", lines)])
    return Report("Dry run of endpoints", study.model or study.dense, [], [page])


def findings_page(document: EndpointsDocument) -> Page:
    """The measured answers, the gain at each load, and the break-evens."""
    blocks: list[Block] = [Sentences("", list(_findings(document)))]
    for loop, loads in by_loop(document).items():
        blocks.append(gain_table(loop, loads))
        if lines := [line for line in document.break_even if line.loop == loop]:
            blocks.append(break_even_table(loop, lines))
    return Page(
        "endpoints",
        "Does pruning pay in this server?",
        "A gain is above 1 if pruning is better: throughput is pruned over dense, times are dense over pruned. In each "
        "round both arms were measured under each load, one after the other, in balanced order. A gain is made within "
        "a round, and its 95 % interval is over the rounds. The break-even is the load at which a curve through "
        "the gains of all loads crosses 1. The curve only rises, or only falls. The interval of a single load may "
        "contain 1 all the same.",
        blocks,
    )


def break_even_table(loop: Loop, lines: Sequence[LoadBreakEven]) -> Table:
    """The loads of one loop under which pruning pays: a row for each quantity."""
    columns: dict[str, Callable[[LoadBreakEven], Entry]] = {
        "": lambda line: Entry(QUANTITIES[line.quantity].label),
        "pruning pays": lambda line: Entry(_where(line)),
    }
    return tabulate(f"Break-even, by {load_word(loop)}", columns, lines, compact=True)


def _where(line: LoadBreakEven) -> str:
    """The side of the load on which pruning pays, or why no such load is known."""
    if line.load is not None and line.ci95 is not None:
        return f"{line.pays} {units.load_within(line.load, line.ci95)}"
    if line.against:
        return f"not decided: more than one crossing, by {listed([units.load(load) for load in line.against])}"
    if line.measured is None or line.status == "inconclusive":
        return f"not decided: a crossing may lie in {_loads(line.ci95)}" if line.ci95 else "not decided"
    return f"{'' if line.status == 'always' else 'not '}at {_loads(line.measured)}, by the fit"


def _loads(ends: Sequence[float]) -> str:
    """A range of loads: `1 to 8`, or `3` if its ends are one load."""
    return " to ".join(dict.fromkeys(map(units.load, ends)))


def loads_page(document: EndpointsDocument) -> Page:
    """Each arm under each load."""
    return Page(
        "loads",
        "Load by load",
        "Throughput counts answered requests a second, and goodput those whose first token came within "
        "--ttft-limit-ms. The time to the first token begins when a request was due: in the open loop when it arrived, "
        "in the closed loop when the answer before it was received. So a wait in the client counts. TPOT and total "
        "time are medians, prompts and answers are means in tokens, as the server reports them. The value is the "
        "geometric mean over the rounds, or the mean if a round has 0.",
        [arm_table(loop, loads) for loop, loads in by_loop(document).items()],
        folded="Show each server under each load",
    )


def study_page(document: EndpointsDocument) -> Page:
    """The study, and the machine of the client."""
    where = document.environment
    client = f"{where.cpu}, {where.system}, Python {where.python}"
    return Page(
        "study",
        "Study",
        "Times hold for these servers under no other load.",
        [
            Terms("Options", [*fields_of(document.study), ("client", client)], detail=True),
            sessions_table(document.sessions),
        ],
        folded="Show the study and its sessions",
    )


def gain_table(loop: Loop, loads: Sequence[AtLoad]) -> Table:
    """The gains under each load of one loop."""
    columns: dict[str, Callable[[AtLoad], Entry]] = {load_word(loop): _load}
    measured = {name: quantity for name, quantity in QUANTITIES.items() if any(name in at.gains for at in loads)}
    for name, quantity in measured.items():
        columns[quantity.label] = lambda at, name=name: speedup(at.gains.get(name))
    first = 1 + sum(quantity.has_break_even for quantity in measured.values())
    drawn = dict.fromkeys((quantity.label for quantity in QUANTITIES.values() if quantity.is_drawn), 1.0)
    order = f"Sorted by {load_word(loop)}, the lowest first."
    return tabulate(f"Gain of pruning by {load_word(loop)}", columns, loads, first=first, order=order, drawn=drawn)


def arm_table(loop: Loop, loads: Sequence[AtLoad]) -> Table:
    """Both arms under each load of one loop."""
    columns: dict[str, Callable[[tuple[AtLoad, str, ArmAtLoad]], Entry]] = {
        load_word(loop): lambda row: _load(row[0]),
        "arm": lambda row: Entry(row[1], colour=0 if row[1] == "pruned" else None),
    }
    for name, quantity in QUANTITIES.items():
        if any(getattr(at.dense, name) for at in loads):
            columns[quantity.label] = lambda row, name=name: _value(getattr(row[2], name))
    columns |= {
        "prompt": lambda row: _count(row[2].prompt_tokens),
        "answer": lambda row: _count(row[2].output_tokens),
        "requests": lambda row: _count(row[2].requests),
        "failed": lambda row: Entry(units.exact(row[2].errors), tone="loss" if row[2].errors else ""),
    }
    rows = [(at, arm, getattr(at, arm)) for at in loads for arm in ARMS]
    return tabulate(f"Each arm by {load_word(loop)}", columns, rows, keys=2, detail=True)


def _findings(document: EndpointsDocument) -> Iterator[str]:
    dense, pruned = (getattr(document.loads[0], arm).prompt_tokens for arm in ARMS)
    if dense is not None and pruned is not None:
        dense, pruned = (units.plain(round(tokens, 1)) for tokens in (dense, pruned))
        kept = "" if document.retention is None else f"; of a picture's tokens {units.percent(document.retention)} stay"
        yield f"A prompt has {dense} tokens dense and {pruned} pruned, as the servers report it{kept}."
    if (answers := document.answers) is not None:
        dense, pruned = (units.percent_within(arm.value, arm.ci95) for arm in (answers.dense, answers.pruned))
        lost = units.points(answers.difference.value, answers.difference.ci95)
        questions = units.number_of(answers.difference.samples, "question")
        yield f"Of {questions} the dense server answers {dense} right, and the pruned one {pruned}: {lost}, paired."
    arms = [arm for at in document.loads for arm in (at.dense, at.pruned)]
    requests = units.number_of(sum(arm.requests for arm in arms), "request")
    yield f"{requests} measured; {units.exact(sum(arm.errors for arm in arms))} failed."


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
    text = units.per_second if isinstance(estimate, PerSecond) else units.milliseconds
    low, high = map(text, estimate.ci95)
    return Entry(text(estimate.value), title=f"95 % interval {low} to {high}", order=estimate.value)
