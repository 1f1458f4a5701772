"""The kind `audit`: recompute each figure of a paper from its other figures."""
