"""The remarks on methods that conclusions need."""

from trio_core import methods
from trio_profile.judge.controls import CONTROL, licence


def test_every_control_of_the_registry_says_so_in_its_remark():
    for name in methods.names():
        reference = methods.find(name).reference
        assert (reference.kind == "control") == (reference.remark == CONTROL), name


def test_a_licence_that_restricts_use_is_told():
    assert licence("its code is non-commercial") == " (its code is non-commercial)"
    assert licence(CONTROL) == licence("") == ""
