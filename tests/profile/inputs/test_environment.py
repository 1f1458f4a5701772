from tests.profile.examples import environment
from trio_profile.inputs import environment as environments


def test_the_identity_has_only_what_changes_a_time():
    assert environment().identity == environment(hostname="other", commit="other").identity
    assert environment().identity != environment(driver="other").identity


def test_the_busy_share_is_that_of_all_ticks_between_two_readings(monkeypatch):
    readings = iter([(100, 1000), (160, 1200)])
    monkeypatch.setattr(environments, "_cpu_ticks", lambda: next(readings))
    assert environments._busy() == 0.3
