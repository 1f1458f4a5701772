"""Claims files: what a paper prints, as exact figures of its tables."""
