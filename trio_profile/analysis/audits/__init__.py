"""One kind of check a file: claims in, findings out. They share what `facts.py` derives, and know nothing of each other."""
