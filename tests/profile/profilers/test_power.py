import pytest

from tests.profile.faking import FakeGpu
from trio_profile.profilers import power


def test_energy_is_above_idle_and_per_repetition(tiny_workload, monkeypatch):
    """A GPU of 30 W idle and 430 W at work; a prefill takes 0.1 s, a generation of three tokens 0.5 s."""
    gpu = FakeGpu([2000])
    joules = 0.0

    def work(watts: float, seconds: float) -> None:
        nonlocal joules
        joules += watts * seconds
        gpu.seconds += seconds

    monkeypatch.setattr(gpu, "energy_j", lambda: joules)
    monkeypatch.setattr(type(tiny_workload), "prefill", lambda _: work(430, 0.1))
    monkeypatch.setattr(type(tiny_workload), "generate", lambda _: work(430, 0.5))
    found = power.measure(
        tiny_workload, None, gpu=gpu, now=lambda: gpu.seconds, sleep=lambda seconds: work(30, seconds)
    )
    assert found.idle_w == pytest.approx(30)
    assert found.prefill_j == pytest.approx(40)
    assert found.token_j == pytest.approx((200 - 40) / 2)
    assert found.reason is None


def test_without_a_moving_counter_there_is_a_reason_and_no_energy(tiny_workload):
    still = FakeGpu([2000], watts=0)
    ticks = iter(range(10**6))
    found = power.measure(tiny_workload, None, gpu=still, now=lambda: next(ticks) / 4, sleep=lambda _: None)
    assert found.prefill_j is None and "did not move" in str(found.reason)
    assert "no NVML" in str(power.measure(tiny_workload, None).reason)
