from tests.profile.examples import environment


def test_the_identity_has_only_what_changes_a_time():
    assert environment().identity == environment(hostname="other", commit="other").identity
    assert environment().identity != environment(driver="other").identity
