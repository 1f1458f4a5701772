"""The kinds of study, one file each, and the functions that run any of them. `kinds.py` registers the kinds."""
