"""One connection to an API server, and what every answer of it must look like, whatever was asked."""

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple

ANSWER_SECONDS = 30.0
"""Longer than the three seconds a read may wait for its revision; whoever needs more hangs."""
REASONS = {
    400: {"BadRequest"},
    401: {"Unauthorized"},
    403: {"Forbidden"},
    404: {"NotFound"},
    405: {"MethodNotAllowed"},
    406: {"NotAcceptable"},
    409: {"AlreadyExists", "Conflict"},
    410: {"Expired"},
    413: {"RequestEntityTooLarge"},
    415: {"UnsupportedMediaType"},
    422: {"Invalid"},
    429: {"TooManyRequests"},
    504: {"Timeout"},
}
"""The only codes a sound server with a store gives to bad input."""


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Keeps its connection as long as the server does. Raises what http.client raises, TimeoutError for a hang."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._port, self._context = port, context
        self._connection = self._make()

    def _make(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self._port, timeout=ANSWER_SECONDS, context=self._context)

    def ask(
        self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        connection = self._connection
        try:
            connection.putrequest(method, target, skip_accept_encoding=True)
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            with connection.getresponse() as response:
                return self._read(response, "watch" in target)
        except BaseException:
            self.renew()
            raise

    def _read(self, response: http.client.HTTPResponse, may_watch: bool) -> Answer:
        """Nothing of a watch: it has no end."""
        if may_watch and response.status == 200 and response.chunked:
            self.renew()
            return Answer(response.status, dict(response.headers), b"")
        answer = Answer(response.status, dict(response.headers), response.read())
        if response.will_close:
            self.renew()
        return answer

    def renew(self) -> None:
        self._connection.close()
        self._connection = self._make()

    close = renew


def fault(method: str, answer: Answer) -> str:
    """What is wrong with this answer, empty if nothing is."""
    if answer.status < 400:
        return ""
    if answer.status not in REASONS:
        return f"code {answer.status}: {answer.body[:400]!r}"
    if method == "HEAD":
        return "" if not answer.body else "a body to HEAD"
    try:
        status = json.loads(answer.body)
    except ValueError:
        return f"code {answer.status} without a Status: {answer.body[:400]!r}"
    wrapper = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": answer.status}
    wrong = [key for key, value in wrapper.items() if status.get(key) != value]
    if wrong or not isinstance(status.get("metadata"), dict) or not status.get("message"):
        return f"no proper Status ({wrong}): {status}"
    if status.get("reason") not in REASONS[answer.status]:
        return f"reason {status.get('reason')!r} with code {answer.status}: {status}"
    details = status.get("details", {})
    if answer.headers.get("Retry-After", "") != str(details.get("retryAfterSeconds") or ""):
        return f"Retry-After differs from its details: {answer.headers} {status}"
    causes = details.get("causes", [])
    if any(set(cause) - {"reason", "message", "field"} for cause in causes):
        return f"causes with other keys: {causes}"
    return ""
