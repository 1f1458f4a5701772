"""The records of measurements."""

from trio_profile.records.schema import Removal

FIELDS = {"question": 0, "layer": 1, "kept": 3, "bound": 1.0, "norms": 2.0, "kl_nats": 0.5}


def test_an_old_removal_with_the_field_choice_is_read():
    old = Removal.model_validate({**FIELDS, "choice": "random"})
    new = Removal(**FIELDS, selection="random")
    assert old == new
    assert new.model_dump()["selection"] == "random"
