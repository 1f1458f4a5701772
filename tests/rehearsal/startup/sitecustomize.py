"""Python imports this first in each process: it installs the pretended device, if a rehearsal asks for it."""

import ctypes
import os

if "REHEARSAL_LIBRARY" in os.environ:
    # torch asks once, while it is imported, whether there is CUDA.
    library = ctypes.CDLL(os.environ["REHEARSAL_LIBRARY"])
    from tests.rehearsal import cuda

    cuda.install(library)
