import pytest

from trio_profile.judge.audit.document import AuditDocument


def test_one_printed_mean_does_not_follow_from_its_scores(trio_audit: AuditDocument):
    means = [one for one in trio_audit.claims if one.check == "average"]
    assert len(means) == 40
    (wrong,) = [one for one in means if one.verdict != "supported"]
    assert (wrong.where, wrong.printed, wrong.verdict) == ("accuracy_llava_1_5, fastv 64", "74.0", "overstated")
    assert wrong.recomputed == pytest.approx(73.5527, abs=1e-4)
