from types import SimpleNamespace

import pytest

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
    found._nvml, found._handle, found._me, found._full = Refuses(), None, 7, 2000
    assert (found.clock_mhz(), found.slowed_by(), found.others()) == (None, (), ())


@pytest.mark.parametrize(("pids", "others"), [([7], ()), ([7, 9], (9,)), ([41], ()), ([41, 43], (43,)), ([], ())])
def test_in_a_container_a_single_unknown_process_is_taken_for_this_one(pids, others):
    running = [SimpleNamespace(pid=pid) for pid in pids]
    found = object.__new__(gpu.Gpu)
    found._me, found._handle = 7, None
    found._nvml = SimpleNamespace(nvmlDeviceGetComputeRunningProcesses=lambda _: running, NVMLError=KeyError)
    assert found.others() == others
