"""The API server as it is: with LAB_METER a meter of its event loop, with LAB_PLAIN without TLS, which no flag allows.

The meter: the most CPU the loop's thread spent between two turns of a timer of 1 ms, since it was last asked for. The
timer itself costs 0.04 s of CPU a second, so nothing else is measured beside it.
"""

import asyncio
import os
import ssl
import time

from prometheus_client import Gauge

from actors.apiserver.actor import ApiServer
from actors.apiserver.http.routing.handler import Handler
from actors.apiserver.http.routing.server import Server
from protocols.actor import run_actor
from protocols.cel.worker.process import with_worker

EVERY_S = 0.001
METER = "lab_longest_turn_seconds"


class PlainServer(Server):
    def tls(self) -> ssl.SSLContext | None:
        return None


class LabApiServer(ApiServer):
    async def start(self) -> None:
        await super().start()
        if os.environ.get("LAB_METER"):
            self._start_meter()

    def _start_meter(self) -> None:
        self._longest, self._spent = 0.0, time.thread_time()
        gauge = Gauge(METER, "Longest turn of the event loop, in CPU seconds.", registry=self._context.registry)
        gauge.set_function(self._take)
        self._measure()

    def _listener(self, handler: Handler) -> Server:
        kind = PlainServer if os.environ.get("LAB_PLAIN") else Server
        return kind(self._server_options(), handler)

    def _measure(self) -> None:
        now = time.thread_time()
        self._longest, self._spent = max(self._longest, now - self._spent), now
        asyncio.get_running_loop().call_later(EVERY_S, self._measure)

    def _take(self) -> float:
        longest, self._longest = self._longest, 0.0
        return longest


if __name__ == "__main__":
    run_actor("apiserver", with_worker(LabApiServer), None)
