"""Imports without the system's certificate authorities: aiohttp reads them twice when it is imported, for requests that
do not say whom they trust. Ours all do, and the reading was a tenth of all that a plane's imports cost.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager

PLACES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Where OpenSSL is told to look for them."""


@contextmanager
def unread() -> Generator[None]:
    """The environment is as it was afterwards. For a process of one thread."""
    before = {name: os.environ.get(name) for name in PLACES}
    os.environ.update(dict.fromkeys(PLACES, os.devnull))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
