"""One quantity per file. A profiler runs a workload and returns what it saw; profilers are strangers to each other."""
