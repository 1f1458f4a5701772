"""How a study of cells runs: `local.py` drives, `hosts.py` carries out its orders, `measuring.py` measures.

The driver asks which order comes next whenever a host is free, and alone writes the log. So there is one stopping rule
on every engine, and a driver that was killed goes on from the log.
"""
