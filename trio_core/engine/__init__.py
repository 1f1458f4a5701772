"""How pruning runs inside a model's forward.

attach: the hooks, and which thread and which layers they saw. generate: the guards of `model.generate`.
prompt: from the inputs of a forward to samples; every refusal of an input stands there.
prefill: the stages, and the check that kept indices ascend.
passes: steps on a pruned cache, and what a prefill and a step both do at each layer.
cache: what a pruned cache holds. frames: which tokens are left, and masks and positions cut to them.
places: what comes out of a forward, at the places of the prompt.
checking: the trial of a model that no file knows.
"""
