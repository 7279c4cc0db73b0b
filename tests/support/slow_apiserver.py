"""The API server with one fault for tests: a create with fieldManager=spin works for ever, in the event loop."""

from actors.apiserver.actor import ApiServer
from actors.apiserver.http.connection.requests import Request
from actors.apiserver.http.connection.responses import Reply
from actors.apiserver.http.endpoints.writing import Writing
from protocols.actor import run_actor
from protocols.cel.worker.process import with_worker

SPIN = "spin"
_create = Writing.create


async def _spinning(self: Writing, request: Request) -> Reply:
    while request.query.get("fieldManager") == SPIN:
        pass
    return await _create(self, request)


if __name__ == "__main__":
    Writing.create = _spinning  # type: ignore[method-assign]
    run_actor("apiserver", with_worker(ApiServer), None)
