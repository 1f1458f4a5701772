import pytest
import torch

from trio_profile.errors import StudyError
from trio_profile.profilers import clock as clocks


def test_each_device_has_its_clock_and_refuses_options_that_it_lacks():
    assert isinstance(clocks.clock_for(torch.device("cpu")), clocks.HostClock)
    assert isinstance(clocks.clock_for(torch.device("cuda")), clocks.CudaClock)
    with pytest.raises(StudyError, match="preroll_ms 5 on device cpu"):
        clocks.clock_for(torch.device("cpu"), preroll_ms=5)
    with pytest.raises(StudyError, match="cold_l2 on device cpu"):
        clocks.clock_for(torch.device("cpu"), cold_l2=True)
    with pytest.raises(StudyError, match="cannot be timed"):
        clocks.clock_for(torch.device("meta"))
