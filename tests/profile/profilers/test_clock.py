import pytest
import torch

from trio_profile.errors import StudyError
from trio_profile.profilers import clock as clocks


def test_each_device_has_its_clock():
    assert isinstance(clocks.clock_for(torch.device("cpu")), clocks.HostClock)
    assert isinstance(clocks.clock_for(torch.device("cuda")), clocks.CudaClock)
    with pytest.raises(StudyError, match="cannot be timed"):
        clocks.clock_for(torch.device("meta"))
