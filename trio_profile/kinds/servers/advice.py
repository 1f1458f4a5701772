"""What a study of servers recommends, and the words of its report for quantities, loads and break-evens."""

from collections.abc import Iterable, Iterator
from math import ceil, floor

from trio_profile import units
from trio_profile.analysis.recommendation import MOST_LOST
from trio_profile.kinds.servers.document import EndpointsDocument, LoadBreakEven, Quantity, ServedAnswers
from trio_profile.kinds.servers.study import Loop
from trio_profile.text import listed

NAMES: dict[Quantity, str] = {
    "throughput": "throughput",
    "goodput": "goodput",
    "ttft_p50_ms": "median TTFT",
    "ttft_p95_ms": "95th percentile of TTFT",
    "ttft_p99_ms": "99th percentile of TTFT",
    "tpot_ms": "TPOT",
    "total_ms": "total time",
}
"""The quantities in a sentence."""


def in_words(quantity: Quantity) -> str:
    """A quantity in a sentence, with its article: `throughput`, `the median TTFT`."""
    return f"the {NAMES[quantity]}" if "TTFT" in NAMES[quantity] else NAMES[quantity]


def load_word(loop: Loop) -> str:
    """The name of a load of a loop."""
    return "concurrency" if loop == "closed" else "rate"


def loops_of(document: EndpointsDocument) -> list[Loop]:
    """The loops that were measured."""
    return list(dict.fromkeys(at.loop for at in document.loads))


def undecided(document: EndpointsDocument, one: LoadBreakEven) -> list[float]:
    """The loads whose own interval of the gain contains 1. None of them where the gain crosses 1: a load says where."""
    if one.status == "crossing":
        return []
    gains = [(at.load, at.gains.get(one.quantity)) for at in document.loads if at.loop == one.loop]
    return [load for load, gain in gains if gain is not None and gain.ci95[0] <= 1 <= gain.ci95[1]]


def _decided(document: EndpointsDocument, one: LoadBreakEven) -> dict[float, float]:
    """The gain at each load whose own interval does not contain 1."""
    open_loads = undecided(document, one)
    measured = [at for at in document.loads if at.loop == one.loop and one.quantity in at.gains]
    return {at.load: at.gains[one.quantity].value for at in measured if at.load not in open_loads}


def _always(document: EndpointsDocument, one: LoadBreakEven) -> bool | None:
    """Whether pruning pays at all loads that are decided. None if it pays at some of them, or if none is decided."""
    if one.status in ("always", "never"):
        return one.status == "always"
    sides = {gain > 1 for gain in _decided(document, one).values()}
    return sides.pop() if len(sides) == 1 else None


def pays(document: EndpointsDocument, one: LoadBreakEven) -> str:
    """Up to which load pruning pays, beginning with a verb: `pays up to a concurrency of 6.7 [5.9, 7.4]`."""
    word, ends = load_word(one.loop), one.measured
    if one.status == "crossing" and one.load is not None and one.ci95 is not None:
        cut = ends is not None and (one.ci95[0] <= ends[0] or one.ci95[1] >= ends[1])
        side, note = "up to" if one.pays == "below" else "from", "; loads beyond were not measured" if cut else ""
        return f"pays {side} a {word} of {units.load_within(one.load, one.ci95)}{note}"
    if (always := _always(document, one)) is None:
        return "is inconclusive"
    if open_loads := undecided(document, one):
        verb, decided = "pays" if always else "does not pay", _decided(document, one)
        return f"{f'{verb} at {_loads(decided)}, and ' if decided else ''}is undecided at {_loads(open_loads)}"
    measured = f", {units.load(ends[0])} to {units.load(ends[1])}" if ends else ""
    return f"pays at {'every' if always else 'no'} {word} measured{measured}"


def is_unpruned(document: EndpointsDocument) -> bool:
    """Whether the pruned server reports as many tokens of a prompt as the dense one, or more."""
    return any(doubt.kind == "prompt length" and doubt.threshold > 0 for doubt in document.doubts)


def recommendation(document: EndpointsDocument) -> Iterator[str]:
    """What to do, in a few sentences."""
    if is_unpruned(document):
        fields = document.study.pruned_body
        cause = f"this engine may ignore {fields}" if fields else "the pruned server may ignore its setting"
        yield (
            f"Nothing was pruned, as the servers report their prompts: {cause} for this model. Look into its log. What "
            "follows compares two servers that may do the same work."
        )
    if document.answers is not None and document.answers.lost:
        yield _without_answers(document.answers)
        return
    for main in main_break_evens(document):
        if is_unpruned(document) and main.status == "inconclusive":
            continue
        yield _advice(document, main)
        known = [one for one in document.break_even if one.loop == main.loop]
        others = [one for one in known if one.quantity != main.quantity and _contradicts(one, main)]
        for words, names in by_words(document, others).items():
            yield f"For {listed([in_words(name) for name in names])} the answer differs: pruning {words}."


def _without_answers(answers: ServedAnswers) -> str:
    """Advice where pruning loses right answers: then no speed counts."""
    lost = answers.difference
    asked, points = units.number_of(lost.samples, "question"), units.points_lost(lost.value, lost.ci95)
    why = f"however fast it is: it loses {points} points of right answers to {asked}"
    if lost.ci95[1] < -MOST_LOST:
        return f"Do not use this pruning, {why}. Prune less."
    return f"Do not use this pruning before you have asked more questions, {why}."


def main_break_evens(document: EndpointsDocument) -> Iterator[LoadBreakEven]:
    """The break-even that decides, for each loop: that of the goodput, if there is one."""
    for loop in loops_of(document):
        known = {one.quantity: one for one in document.break_even if one.loop == loop}
        # Below its limit, a server of the open loop answers as many requests as arrive.
        main = known.get("goodput") or known.get("throughput" if loop == "closed" else "ttft_p95_ms")
        if main is not None:
            yield main


def by_words(document: EndpointsDocument, break_evens: Iterable[LoadBreakEven]) -> dict[str, list[Quantity]]:
    """The sentences of `pays`, each with the quantities of which it is true."""
    alike: dict[str, list[Quantity]] = {}
    for one in break_evens:
        alike.setdefault(pays(document, one), []).append(one.quantity)
    return alike


def _advice(document: EndpointsDocument, one: LoadBreakEven) -> str:
    """Advice by one break-even."""
    name, word = in_words(one.quantity), load_word(one.loop)
    ends = one.measured or (0.0, 0.0)
    if one.status != "crossing" and (decided := _at_decided_loads(document, one)):
        return decided
    if one.status == "crossing" and one.ci95 is not None and (advice := _around(one, one.ci95, ends)):
        return advice
    if one.against:
        turns = listed([units.load(load) for load in one.against])
        return (
            f"Decide load by load: the gain in {name} does not rise or fall steadily. At a {word} of {turns} it is on "
            "the other side of 1."
        )
    return f"Measure longer: these rounds do not say whether pruning pays in {name}."


def _at_decided_loads(document: EndpointsDocument, one: LoadBreakEven) -> str:
    """Advice for the loads whose own intervals do not contain 1. Empty if there is none, or if they contradict."""
    open_loads, gains, always = undecided(document, one), _decided(document, one), _always(document, one)
    if not gains or always is None:
        return ""
    every = len(gains) == sum(at.loop == one.loop for at in document.loads) > 1
    word, low, high = load_word(one.loop), units.times(min(gains.values())), units.times(max(gains.values()))
    where = f"every {word} that was measured" if every else f"a {word} of {_loads(gains)}"
    rest = f" At {_loads(open_loads)} these rounds do not decide." if open_loads else ""
    gain = low if len(gains) == 1 else f"{low} to {high}"
    if always:
        return f"Use pruning at {where}: its gain in {in_words(one.quantity)} is {gain}.{rest}"
    return f"Do not use pruning at {where}: its gain in {in_words(one.quantity)} is {gain}, which is a loss.{rest}"


def _loads(loads: Iterable[float]) -> str:
    return listed([units.load(load) for load in loads])


def _around(one: LoadBreakEven, ci95: tuple[float, float], ends: tuple[float, float]) -> str:
    """What to use on each side of a break-even, as far as loads were measured there beyond its interval."""
    below, above = ("pruning", "the dense model") if one.pays == "below" else ("the dense model", "pruning")
    low, high = (floor(ci95[0]), ceil(ci95[1])) if one.loop == "closed" else ci95
    word = f"a {load_word(one.loop)} of"
    sides = [f"{below} up to {word} {units.load(low)}"] if ci95[0] > ends[0] else []
    sides += [f"{above} from {word} {units.load(high)} on"] if ci95[1] < ends[1] else []
    # Between two whole numbers that follow each other there is no load.
    whole = len(sides) == 2 and one.loop == "closed" and high - low <= 1
    rest = "" if whole else " Measure longer, or nearer loads, to decide the others."
    return f"Use {', and '.join(sides)}, judged by {in_words(one.quantity)}.{rest}" if sides else ""


def _contradicts(one: LoadBreakEven, main: LoadBreakEven) -> bool:
    """Whether two quantities measurably say different things at some load."""
    if "inconclusive" in (one.status, main.status):
        return False
    if one.ci95 is None or main.ci95 is None:
        return one.status != main.status
    return one.pays != main.pays or one.ci95[0] > main.ci95[1] or one.ci95[1] < main.ci95[0]
