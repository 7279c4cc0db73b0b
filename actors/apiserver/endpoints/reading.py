"""GET and LIST."""

from actors.apiserver.endpoints.types import Reply, Request
from actors.apiserver.numbers import resource_version
from actors.apiserver.reads.reader import Reader
from actors.apiserver.render import render_list, render_stored


class Reading:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def get(self, request: Request) -> Reply:
        version = resource_version(request.query.get("resourceVersion", ""))
        stored = await self._reader.get(request.target, version)
        return Reply(render_stored(request.target.resource, stored, request.form), media_type=request.form.media_type)

    async def list(self, request: Request) -> Reply:
        listing = await self._reader.list(request.target, request.options, request.wanted)
        body = render_list(request.target.resource, listing.objects, request.form, listing.metadata())
        return Reply(body, media_type=request.form.media_type)
