"""Answers of the node's endpoint: Status objects, as the API server passes them on."""

import msgspec
from aiohttp import web

from actors.podworker.streaming.errors import StreamingRefused


def status(error: StreamingRefused) -> dict[str, object]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": str(error),
        "reason": error.reason,
        **({"details": {"retryAfterSeconds": error.retry_s}} if error.retry_s else {}),
        "code": error.http,
    }


def refusal(error: StreamingRefused) -> web.Response:
    return web.Response(body=msgspec.json.encode(status(error)), status=error.http, content_type="application/json")
