"""One kind of check a file: the facts of a paper's claims in, findings out. `facts.py` holds what they share."""
