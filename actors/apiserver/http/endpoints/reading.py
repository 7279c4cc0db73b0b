"""GET and LIST."""

from itertools import chain

from actors.apiserver.api.encoding.negotiate import PLAIN
from actors.apiserver.api.encoding.render import list_parts, render_list, render_stored
from actors.apiserver.api.query import resource_version
from actors.apiserver.api.workers import offload, workers
from actors.apiserver.http.connection.requests import Request
from actors.apiserver.http.connection.responses import Reply
from actors.apiserver.reads.reader import Reader


class Reading:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def get(self, request: Request) -> Reply:
        version = resource_version(request.query.get("resourceVersion", ""))
        stored = await self._reader.get(request.target, version)
        resource, form = request.target.resource, request.form
        if form == PLAIN:
            return Reply(render_stored(resource, stored, form), media_type=form.media_type)
        body = await offload(len(stored.raw), lambda: render_stored(resource, stored, form))
        return Reply(body, media_type=form.media_type)

    async def list(self, request: Request) -> Reply:
        listing = await self._reader.list(request.target, request.options, request.wanted)
        resource, form = request.target.resource, request.form
        warnings = [f"left out, since it cannot be read: {key}" for key in listing.corrupt]
        if form.protobuf or form.yaml:  # made in one go, so not here
            metadata = listing.metadata()
            body = await workers().run(lambda: render_list(resource, listing.objects, form, metadata))
            return Reply(body, media_type=form.media_type, warnings=warnings)
        parts = list_parts(resource, listing.objects, form, listing.metadata())
        first, second = next(parts), next(parts, None)
        rest = None if second is None else chain((second,), parts)
        return Reply(first, media_type=form.media_type, rest=rest, warnings=warnings)
