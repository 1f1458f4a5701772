"""The law over whole walks from claimed to counted work: see tests/profile/law.py."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from tests.profile.law import SEEN, law, numbers
from tests.profile.studying import make
from trio_profile.cost.reconciliation import Operator, Term
from trio_profile.kinds.flops import run as flops
from trio_profile.kinds.flops.document import FlopsDocument, PrintedClaim, conclude


@cache
def counted() -> FlopsDocument:
    """Counted without weights, and not by fvcore, whose trace takes long."""
    return flops.run(make("flops", model="pocket-deep", device="meta", retentions=(0.33,), new_tokens=2))


def operator(product: bool) -> Operator:
    return Operator(op="aten.mystery", calls=1, flops=0, output_bytes=8, formula=None, product=product)


@st.composite
def walks(draw: st.DrawFn) -> FlopsDocument:
    """The walk with a term more, and with what that leaves; a printed figure whose walk may leave something too."""
    base, rests = counted(), st.sampled_from([0, 0, 0, 1, -4096])
    rest = draw(rests)
    terms = (*base.terms[: draw(st.integers(0, 3))], Term(name="more", macs=draw(st.integers(-(10**6), 10**6))))
    end = base.counted.torch_flops // 2
    rest_of_print, figure = draw(rests), draw(st.integers(10**9, 10**10))
    step = Term(name="step", macs=end - figure - rest_of_print)
    printed = PrintedClaim(figure=figure, convention="c", terms=(step,), residual_macs=rest_of_print)
    update = {
        "terms": terms,
        "residual_macs": rest,
        "claimed": base.claimed.model_copy(update={"fastv_macs": end - rest - sum(term.macs for term in terms)}),
        "uncounted": tuple(map(operator, draw(st.sampled_from([(), (), (False,), (True, False)])))),
        "printed": draw(st.sampled_from([None, printed])),
        "selection_counted": draw(st.booleans()),
    }
    return base.model_copy(update=update)


def amount(text: str) -> float:
    """The number before a word, such as `2.986 T`."""
    return float(text[:-1]) * {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[text[-1]]


@law(100)
@given(walks())
def test_no_term_refutes_the_conclusion(document: FlopsDocument):
    found = conclude(document)
    SEEN["flops"][found.word] += 1
    end, walks = document.counted.torch_flops // 2, [(document.claimed.fastv_macs, document.terms)]
    walks += [(document.printed.figure, document.printed.terms)] if document.printed else []
    rests = [end - start - sum(term.macs for term in terms) for start, terms in walks]
    missed = any(operator.product for operator in document.uncounted)
    assert (found.word == "reconciled") == (not missed and not any(rests))
    claimed = amount(found.sentence.partition(" MACs are claimed")[0].replace(" ", ""))
    own = [place for place, (start, _) in enumerate(walks) if abs(claimed / start - 1) < 1e-3]
    assert own, "the sentence begins with no claim of the document"
    for count in numbers("# named term", found.sentence):
        assert any(count == len(walks[place][1]) for place in own)
    if "unexplained" in found.sentence:
        left = found.sentence.partition("leave ")[2].partition(" MACs unexplained")[0]
        assert int(left.replace("\u202f", "").replace("−", "-")) in [rests[place] for place in own if rests[place]]
    assert ("misses" in found.sentence) == missed
    assert found.sureness != "high" or document.selection_counted
