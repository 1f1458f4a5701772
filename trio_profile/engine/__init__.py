"""How a study of cells runs: its plan, its rounds, its questions, and the processes that measure them."""
