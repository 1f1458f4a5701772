"""What a study of servers recommends."""

from collections.abc import Iterator
from math import ceil, floor

from trio_profile import units
from trio_profile.analysis.endpoints import EndpointsDocument, LoadBreakEven
from trio_profile.findings.endpoint_words import in_words, load_words, loops_of, pays
from trio_profile.text import listed


def recommendation(document: EndpointsDocument) -> Iterator[str]:
    """What to do, in one or two sentences."""
    for main in main_break_evens(document):
        yield _advice(main)
        known = [one for one in document.break_even if one.loop == main.loop]
        others = [one for one in known if one.quantity != main.quantity and _contradicts(one, main)]
        for words in dict.fromkeys(map(pays, others)):
            names = listed([in_words(one.quantity) for one in others if pays(one) == words])
            yield f"For {names} the answer differs: pruning {words}."


def main_break_evens(document: EndpointsDocument) -> Iterator[LoadBreakEven]:
    """The break-even that decides, for each loop: that of the goodput, if there is one."""
    for loop in loops_of(document):
        known = {one.quantity: one for one in document.break_even if one.loop == loop}
        # Below its limit, a server of the open loop answers as many requests as arrive.
        main = known.get("goodput") or known.get("throughput" if loop == "closed" else "ttft_p95_ms")
        if main is not None:
            yield main


def _advice(found: LoadBreakEven) -> str:
    name, word = in_words(found.quantity), load_words(found.loop)
    ends = found.measured or (0.0, 0.0)
    where = f"a {word} of {units.load(ends[0])}" if ends[0] == ends[1] else f"every {word} that was measured"
    if found.status == "always":
        return f"Use pruning: it is better in {name} at {where}."
    if found.status == "never":
        return f"Do not use pruning here: it is worse in {name} at {where}."
    if found.status == "crossing" and found.ci95 is not None:
        return _advice_around(found, found.ci95, ends)
    if found.against:
        turns = listed([units.load(one) for one in found.against])
        return (
            f"Decide load by load: the gain in {name} does not rise or fall steadily. At a {word} of {turns} it is on "
            "the other side of 1."
        )
    return f"Measure longer: these rounds do not say whether pruning pays in {name}."


def _advice_around(found: LoadBreakEven, ci95: tuple[float, float], ends: tuple[float, float]) -> str:
    """What to do on both sides of a break-even.

    If its interval reaches the lowest or the highest load that was measured, nothing is advised on that side.
    """
    name, word = in_words(found.quantity), load_words(found.loop)
    below, above = ("pruning", "the dense model") if found.pays == "below" else ("the dense model", "pruning")
    whole = found.loop == "closed"
    low, high = (floor(ci95[0]), ceil(ci95[1])) if whole else ci95
    up_to, from_ = f"Use {below} up to a {word} of {units.load(low)}", f"{above} from {units.load(high)} on"
    if ci95[0] > ends[0] and ci95[1] < ends[1]:
        if high - low <= 1 if whole else units.load(low) == units.load(high):
            return f"{up_to}, and {above} above it, judged by {name}."
        return f"{up_to}, and {from_}, judged by {name}. Between them it is not decided."
    if ci95[0] > ends[0]:
        return f"{up_to}, judged by {name}. Above it is not decided: measure longer, or higher loads."
    if ci95[1] < ends[1]:
        return (
            f"Use {above} from a {word} of {units.load(high)} on, judged by {name}. Below it is not decided: measure "
            "longer, or lower loads."
        )
    return f"Measure longer: the interval of the break-even in {name} reaches from the lowest to the highest load."


def _contradicts(one: LoadBreakEven, main: LoadBreakEven) -> bool:
    """Whether two quantities measurably say different things at some load."""
    if "inconclusive" in (one.status, main.status):
        return False
    if one.ci95 is None or main.ci95 is None:
        return one.status != main.status
    return one.pays != main.pays or one.ci95[0] > main.ci95[1] or one.ci95[1] < main.ci95[0]
