"""Work by formula: the paper's f(n), the conventions in print, and the walk from a claim to a count."""
