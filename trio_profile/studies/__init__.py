"""One kind of study a file. A study is planned, run, and kept; `kinds.py` registers the kinds."""
