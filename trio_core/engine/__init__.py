"""How pruning runs inside a model's forward.

attach: the hooks, and which thread and which layers they saw. prompt: from the inputs of a forward to samples, with
every refusal of an input. prefill: stages. decode: steps on a pruned cache. passes: what both do at each layer. cache:
what a pruned cache holds. frames: which tokens are left, and masks and positions cut to them. order: every method is
held to ascending indices. checking: the trial of a model that no file knows.
"""
