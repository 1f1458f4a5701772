import time
from types import SimpleNamespace

import pytest

from tests.profile.faking import FakeGpu
from trio_profile.profilers import gpu


def test_a_refusal_of_nvml_leaves_the_value_unknown():
    class Refuses:
        NVML_CLOCK_SM = 1

        class NVMLError(Exception):
            pass

        def __getattr__(self, name):
            def refuse(*_):
                raise self.NVMLError("not supported")

            return refuse if name.startswith("nvmlDevice") else 1

    found = object.__new__(gpu.Gpu)
    found._nvml, found._handle, found._me = Refuses(), None, 7
    assert (found.clock_mhz(), found.slowed_by(), found.others()) == (None, (), ())


@pytest.mark.parametrize(("pids", "others"), [([7], ()), ([7, 9], (9,)), ([41], ()), ([41, 43], (43,)), ([], ())])
def test_in_a_container_a_single_unknown_process_is_taken_for_this_one(pids, others):
    running = [SimpleNamespace(pid=pid) for pid in pids]
    found = object.__new__(gpu.Gpu)
    found._me, found._handle = 7, None
    found._nvml = SimpleNamespace(nvmlDeviceGetComputeRunningProcesses=lambda _: running, NVMLError=KeyError)
    assert found.others() == others


def test_energy_is_above_idle_and_per_repetition(tiny_workload, monkeypatch):
    """A GPU of 30 W idle and 430 W at work; a prefill takes 0.1 s, a generation of three tokens 0.5 s."""
    fake = FakeGpu([2000])
    joules = 0.0

    def work(watts: float, seconds: float) -> None:
        nonlocal joules
        joules += watts * seconds
        fake.seconds += seconds

    monkeypatch.setattr(fake, "energy_j", lambda: joules)
    monkeypatch.setattr(type(tiny_workload), "prefill", lambda _: work(430, 0.1))
    monkeypatch.setattr(type(tiny_workload), "generate", lambda _: work(430, 0.5))
    monkeypatch.setattr(time, "perf_counter", lambda: fake.seconds)
    monkeypatch.setattr(time, "sleep", lambda seconds: work(30, seconds))
    found = gpu.measure_energy(tiny_workload, None, fake)
    assert found.idle_w == pytest.approx(30)
    assert found.prefill_j == pytest.approx(40)
    assert found.token_j == pytest.approx((200 - 40) / 2)
    assert found.reason is None


def test_without_a_moving_counter_there_is_a_reason_and_no_energy(tiny_workload, monkeypatch):
    still = FakeGpu([2000], watts=0)
    ticks = iter(range(10**6))
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks) / 4)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    found = gpu.measure_energy(tiny_workload, None, still)
    assert found.prefill_j is None and "did not move" in str(found.reason)
    assert "no NVML" in str(gpu.measure_energy(tiny_workload, None).reason)
