"""Short answers: known whole before their first byte, which goes out with the last one."""

import functools
from http import HTTPStatus

from aiohttp import hdrs, web
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import HttpVersion, HttpVersion10, HttpVersion11

from actors.apiserver.api.encoding.negotiate import Headers, written

REASONS = {status.value: status.phrase for status in HTTPStatus}


def whole(request: web.BaseRequest, status: int, headers: Headers, body: bytes) -> bytes:
    """All that is sent. Raises ValueError for a header of several lines."""
    begin = _begin(request.version, status, headers, request.keep_alive)
    date = rfc822_formatted_time().encode()
    sent = b"" if request.method == hdrs.METH_HEAD else body
    return b"%bContent-Length: %d\r\nDate: %b\r\n\r\n%b" % (begin, len(body), date, sent)


@functools.lru_cache(maxsize=256)
def _begin(version: HttpVersion, status: int, headers: Headers, keep_alive: bool) -> bytes:
    """Return the head shared by responses of the same kind."""
    head = written(headers)
    if keep_alive and version == HttpVersion10:
        head += "Connection: keep-alive\r\n"
    elif not keep_alive and version == HttpVersion11:
        head += "Connection: close\r\n"
    return f"HTTP/{version.major}.{version.minor} {status} {REASONS.get(status, '')}\r\n{head}".encode()
