"""Sessions of aiohttp's client."""

import aiohttp


def send_once(session: aiohttp.ClientSession) -> None:
    """Let a session send each request once.

    By itself aiohttp sends PUT and DELETE again when a connection ends without a response, although the write may
    have taken effect: the caller would get a conflict with its own write. It has no public way to say so.
    """
    session._retry_connection = False
