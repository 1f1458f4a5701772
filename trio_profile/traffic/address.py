"""The address of a server."""

import re
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}
"""The ports of addresses that name none."""
_VERSIONED = re.compile(r"/v\d+$")


def base_of(url: str) -> str:
    """Return the address below which the endpoints are: `http://host:8000` → `http://host:8000/v1`."""
    url = url.rstrip("/")
    return url if _VERSIONED.search(url) else f"{url}/v1"


def is_same(first: str, second: str) -> bool:
    """Return whether two addresses name the same endpoints. Host names are not looked up."""
    one, other = (urlsplit(base_of(url)) for url in (first, second))
    ports = [url.port or _PORTS.get(url.scheme) for url in (one, other)]
    return ports[0] == ports[1] and (one.scheme, one.hostname, one.path) == (other.scheme, other.hostname, other.path)
