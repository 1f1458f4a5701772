from tests.profile.studying import make
from trio_profile.studies import flops


def test_the_headline_of_the_paper_is_named_without_weights():
    document = flops.run(
        make("flops", model="llava-next-7b", device="meta", new_tokens=1).model_copy(update={"claimed": "16.67e12"})
    )
    first, printed = document.conventions[0], document.printed
    assert (first.code, first.visual_tokens, first.value) == ("visual-ffn2-macs", 2880, 16_669_841_817_600)
    assert first.counted_by.startswith("the picture without its 48 line ends; llava-next-7b in")
    assert printed is not None and (printed.convention, printed.visual_tokens) == ("visual-ffn2-macs", 2880)
    terms = {term.name: term.macs for term in printed.terms}
    assert terms["visual tokens: 2928, not 2880"] == document.claimed.fastv_macs - first.value
    assert printed.figure + sum(terms.values()) == document.counted.torch_flops // 2
    assert printed.residual_macs == 0


def test_a_pruned_figure_names_gamma_for_each_number_of_tokens():
    study = make("flops", model="llava-next-7b", device="meta", retentions=(0.111,), new_tokens=1)
    document = flops.run(study.model_copy(update={"claimed": "2.68e12"}))
    gammas = {found.visual_tokens: found.gamma for found in document.conventions if found.gamma}
    assert set(gammas) == {None, 2880, 2252}
    low, high = gammas[2880] or (0, 0)
    assert 1.52 < low < high < 1.56
