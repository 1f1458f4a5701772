from tests.profile.command import document
from trio_core import methods
from trio_profile.cli import run
from trio_profile.profilers.declared import selection_cost


def test_every_method_is_listed_with_the_facts_of_its_class(capsys):
    found = {method["name"]: method for method in document(capsys, "methods")["methods"]}
    assert list(found) == sorted(found) and {"fastv", "random", "trio", "visionzip"} <= set(found)
    assert found["trio"]["stage"] == "decoder layers" and found["visionzip"]["stage"] == "encoder output"
    assert found["visionzip"]["needs"] == ["encoder"] and found["fastv"]["needs"] == ["layers"]
    assert found["trio"]["summary"] == methods.find("trio").summary()
    assert found["trio"]["selection_macs"] == selection_cost(methods.find("trio"))[0] > 0


def test_the_listing_says_what_each_method_does(capsys):
    assert run(["methods"]) == 0
    captured = capsys.readouterr().out
    assert all(name in captured for name in methods.names())
    assert methods.find("fastv").summary().split()[0] in captured
    assert "2403.06764" in captured
