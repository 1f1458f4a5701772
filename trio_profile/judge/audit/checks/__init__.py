"""The checks, one kind in each file. A check takes the facts of a paper's claims and returns findings."""
