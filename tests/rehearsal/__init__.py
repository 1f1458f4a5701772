"""A rehearsal of the first GPU: the program on a CUDA device that is pretended, where a machine has none.

cuda.py: the device. Its tensors hold data, work takes device time, events are asynchronous, memory is finite.
nvml.py: what its driver reports.
registration.cpp: what torch's own C++ asks of a CUDA device.
startup/sitecustomize.py: installs them in every process that Python starts.
building.py: compiles the C++, and makes the environment of a process that has the device.
stages.py: operators, waits and bytes of a stage, as a table.
test_rehearsal.py: runs the tests of `inside` in such a process.

The device contradicts: an event that is read too early, tensors of two devices in one operator, too large a tensor, and
a context that a forked process takes over all raise. Each test sets up its machine by environment variables, which the
processes of the program inherit:

    REHEARSAL_LIBRARY      the compiled C++; without it nothing is pretended
    REHEARSAL_DEVICES      how many devices there are (1)
    REHEARSAL_MEMORY       bytes of each (80 GiB)
    REHEARSAL_OPERATOR_MS  the device time of an operator (0.01)
    REHEARSAL_NVML         `all` that a driver can report, `absent`, `virtual` or `no energy` (all)
    REHEARSAL_MHZ          the clock under load (1980, which is the highest)
    REHEARSAL_SLOWED       NVML's bits for why the clock is low (0)
"""
