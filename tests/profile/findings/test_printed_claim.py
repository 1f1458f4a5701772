from tests.profile.studying import make
from trio_profile import units
from trio_profile.analysis.flops import FlopsDocument
from trio_profile.cost.conventions import Convention, Match
from trio_profile.findings.printed_claim import sentences
from trio_profile.studies import flops

BASE: FlopsDocument = flops.run(
    make("flops", model="pocket-deep", device="meta", retentions=(0.33,), new_tokens=1).model_copy(
        update={"claimed": "1.5e9"}
    )
)


def said(*found: Match) -> list[str]:
    return sentences(BASE.model_copy(update={"conventions": found}))


def match(**fields: object) -> Match:
    one = Convention()
    given = {"convention": one, "code": one.code, "name": one.name, "value": 1000, "printed": "rounded", "off": 0.0}
    return Match(**{**given, **fields})  # pyright: ignore[reportArgumentType]


def test_a_dense_figure_with_other_tokens_is_written_as_in_the_paper():
    first, counts = said(match(visual_tokens=500, counted_by="the picture without its 76 line ends"))
    assert first.startswith(f"32 · f(500) is {units.exact(1000)}: visual-ffn2-macs with 500 visual tokens. Rounded")
    assert counts == "This input has 576 visual tokens. 500 are the picture without its 76 line ends."


def test_another_convention_with_other_tokens_has_its_code():
    other = Convention(ffn=3)
    first, _ = said(match(convention=other, code=other.code, name=other.name, visual_tokens=500, counted_by="x"))
    assert first.startswith("visual-ffn3-macs with 500 visual tokens gives")


def test_gamma_is_named_for_each_number_of_tokens_and_the_audit_beside_it():
    line, audit, _ = said(
        match(printed="no", gamma=(1.1, 1.1)), match(printed="no", gamma=(1.2, 1.3), visual_tokens=500, counted_by="x")
    )
    assert line.endswith("if γ is 1.10 with 576 visual tokens and 1.20 to 1.30 with 500 visual tokens.")
    assert "`trio-profile audit`" in audit
