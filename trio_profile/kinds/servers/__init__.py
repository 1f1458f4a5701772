"""The kind `endpoints`: a dense server and a pruned one, under the same loads."""
