"""Python imports this first in each process: it installs the pretended device, if a rehearsal asks for it."""

import os

if "REHEARSAL_LIBRARY" in os.environ:
    from tests.rehearsal import cuda

    cuda.install()
