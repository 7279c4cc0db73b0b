"""A device plugin that answers with bytes, whatever they are."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio


class RawPlugin:
    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._server: grpc.aio.Server | None = None
        self._over = asyncio.Event()
        self.lists: list[bytes] = []
        self.forever = False
        """The lists again and again, as fast as they are taken."""
        self.answer = b""
        """Of Allocate."""

    async def serve(self) -> None:
        self._over.clear()
        self._server = grpc.aio.server()
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        handlers: dict[str, Any] = {
            "GetDevicePluginOptions": unary(self._empty),
            "Allocate": unary(self._allocate),
            "ListAndWatch": stream(self._list),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", handlers),))
        self._server.add_insecure_port(f"unix:{self._socket}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            self._over.set()
            await self._server.stop(5.0)

    async def _empty(self, request: bytes, context: Any) -> bytes:
        return b""

    async def _allocate(self, request: bytes, context: Any) -> bytes:
        return self.answer

    async def _list(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        while True:
            for message in self.lists:
                yield message
            if not self.forever:
                await self._over.wait()
            if self._over.is_set():
                return
