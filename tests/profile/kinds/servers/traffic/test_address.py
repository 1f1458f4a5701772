"""Addresses of servers."""

import pytest

from trio_profile.kinds.servers.study import base_of, is_same


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://host", "http://host/v1"),
        ("http://host:8000/", "http://host:8000/v1"),
        ("http://host/v1/", "http://host/v1"),
        ("http://host/v3", "http://host/v3"),
        ("http://host/models", "http://host/models/v1"),
    ],
)
def test_the_version_is_added_to_an_address_without_one(url, base):
    assert base_of(url) == base


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("http://host:8000", "http://HOST:8000/v1/", True),
        ("http://host:8000", "http://host:8001", False),
        ("https://host:443", "https://host", True),
        ("http://host/a", "http://host/A", False),
        ("http://host", "https://host", False),
    ],
)
def test_two_addresses_may_name_one_server(first, second, same):
    assert is_same(first, second) == same
