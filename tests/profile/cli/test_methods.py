from tests.profile.command import document
from trio_core import methods
from trio_profile.cli import run
from trio_profile.inputs.catalogue import facts_of


def test_every_method_is_listed_with_the_facts_of_its_class(capsys):
    found = {method["name"]: method for method in document(capsys, "methods")["methods"]}
    assert list(found) == sorted(found) and {"fastv", "random", "trio", "visionzip"} <= set(found)
    assert found["trio"]["stage"] == "decoder layers" and found["visionzip"]["stage"] == "before the decoder"
    assert found["visionzip"]["needs"] == ["encoder"] and found["fastv"]["needs"] == ["layers"]
    assert found["trio"]["summary"] == methods.find("trio").summary()
    assert found["trio"]["selection_macs"] == facts_of(methods.find("trio")).selection_macs > 0


def test_single_methods_and_combinations_are_listed_by_name(capsys):
    (found,) = document(capsys, "methods", "visionzip+trio")["methods"]
    assert found["reference"]["arxiv"] == "2412.04467, 2602.04657" and found["remark"] == "our combination"
    assert found["selection_macs"] == facts_of(methods.find("visionzip+trio")).selection_macs > 0
    assert run(["methods", "visionzip+trio", "fastv"]) == 0
    shown = capsys.readouterr().out
    assert "arXiv 2412.04467, 2602.04657" in shown and "pyramiddrop" not in shown
    assert run(["methods", "trio+visionzip"]) == 2
    assert "before the + name a method" in capsys.readouterr().err
