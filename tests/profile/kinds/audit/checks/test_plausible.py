import pytest

from tests.profile.faking import FakeTables
from tests.profile.kinds.audit.auditing import audited, found, of_row
from trio_profile.errors import ClaimsError
from trio_profile.kinds.audit.checks import plausible
from trio_profile.kinds.audit.report import plain


@pytest.mark.parametrize(("device", "verdict"), [("NVIDIA A100 80GB", "overstated"), ("H100", "supported")])
def test_no_prefill_is_faster_than_its_device(device: str, verdict: str):
    """576 tokens of a 7B decoder are 7.47 TFLOPs at the least; 15 ms of them are 498 TFLOP/s."""
    document = audited(f"  t: {{device: {device}, rows: {{baseline: {{prefill_ms: 15.0}}}}}}\n")
    one = found(document, "prefill_ms")
    least = 2 * 32 * (576 * (4 * 4096**2 + 3 * 4096 * 11008) + 576 * 577 * 4096) / 1e12
    assert one.verdict == verdict
    assert one.recomputed == pytest.approx(1000 * least / plausible.peak(device))


def test_a_time_of_many_prefills_needs_their_number():
    table = "  t: {{{} rows: {{baseline: {{prefill_s: 100}}}}}}\n"
    open_ = found(audited(table.format(""), device="a100"), "prefill_s")
    assert (open_.verdict, open_.unit) == ("underdetermined", "samples")
    assert open_.recomputed is not None and 4000 < open_.recomputed < 4300
    for samples, verdict in ((4000, "supported"), (5000, "overstated")):
        assert found(audited(table.format(f"samples: {samples},"), device="a100"), "prefill_s").verdict == verdict
    assert audited(table.format("device: one GPU,")).claims == ()  # a paper may name whatever it ran on


def test_a_pruned_prefill_is_compared_with_its_own_least_time():
    row = "{retention: 0.11, prefill_ms: 1.0}"
    document = of_row(row, "{prefill_ms: 95}", device="a100")
    assert [one.verdict for one in document.claims if one.check == "roofline"] == ["supported", "overstated"]


def test_devices_are_known_by_their_names():
    assert plausible.peak("NVIDIA RTX-4090 24GB") == plausible.peak("rtx4090") == 331
    assert plausible.peak("NVIDIA L40S") == 367
    with pytest.raises(ClaimsError, match="device 'abacus' has no peak on our list; the nearest are"):
        plausible.peak("abacus")


def test_a_dense_time_far_from_an_engines_operators_is_doubted_and_not_refuted(monkeypatch):
    monkeypatch.setattr("trio_profile.cost.aiconfigurator.tables", lambda _: [FakeTables()])
    for milliseconds, doubts in ((9_000_000, ["underdetermined"]), (3_000_000, [])):
        document = of_row("{retention: 0.5, prefill_ms: 1}", f"{{prefill_ms: {milliseconds}}}", device="a100")
        findings = [finding for finding in document.claims if finding.check == "operators"]
        assert [finding.verdict for finding in findings] == doubts
        assert all("far from what an engine's operators" in line for line in plain(findings, document))
