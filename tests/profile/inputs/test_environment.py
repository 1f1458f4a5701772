import torch

from tests.profile.examples import environment
from trio_profile.inputs import environment as environments


def test_the_identity_has_only_what_changes_a_time():
    assert environment().identity == environment(hostname="other", commit="other").identity
    assert environment().identity != environment(driver="other").identity


def test_threads_that_spin_are_seen_where_the_variables_do_not_tell(monkeypatch):
    monkeypatch.setattr(environments.process, "wait_policy", lambda: "")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    for used_ms, policy in ((0.03, "passive"), (0.4, "active")):
        monkeypatch.setattr(environments, "_spin_ms", lambda used_ms=used_ms: used_ms)
        assert environments._wait_policy(fresh=False) == policy
