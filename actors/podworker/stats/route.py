"""GET /stats/summary of the node's endpoint."""

import msgspec
from aiohttp import web

from actors.podworker.stats.sampler import Sampler
from actors.podworker.stats.summary import summary
from actors.podworker.streaming.errors import RuntimeAway, StreamTargetMissing
from protocols.bus import BusError


class StatsRoute:
    def __init__(self, node: str, sampler: Sampler) -> None:
        self._node = node
        self._sampler = sampler

    async def serve(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        """Raises StreamingRefused."""
        if path != ["summary"]:
            raise StreamTargetMissing("the node tells its statistics at /stats/summary")
        try:
            sample = await self._sampler.sample()
        except BusError as error:
            raise RuntimeAway(str(error)) from None
        body = {**summary(self._node, sample), "window": sample.window}
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")
