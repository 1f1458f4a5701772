"""How a study of cells runs: its plan, its rounds, its questions, and the processes that measure them.

|  | one command (`local.py`) | one of several workers (`worker.py`) |
|---|---|---|
| chooses what comes next | what the log lacks, until the intervals are narrow | `board.py`: a run that nobody holds |
| gives orders and hears the processes | `processes.carry_out` | `processes.carry_out` |
| measures | `measuring.py` | `measuring.py` |
| writes | `records/store.py`, each record at once | `records/workers.py`, each run as a whole |
| puts parts together | `shares.Parts` | `shares.Parts`; `records/workers.py` the files of all |

The two stay apart where they promise different things: a killed command loses one cell or the rounds of some seconds,
and a killed worker loses one run and doubles none.
"""
