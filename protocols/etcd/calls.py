"""Unary calls with a deadline, and retries where they are safe."""

import asyncio
import random
from collections.abc import Callable
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from protocols.etcd.errors import Unavailable, etcd_error

T = TypeVar("T", bound=Message)
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.5


def method(channel: grpc.aio.Channel, path: str, answer: type[T]) -> Callable[..., Any]:
    """A callable for `Service/Method` of the etcd API."""
    return channel.unary_unary(
        f"/etcdserverpb.{path}", request_serializer=_serialize, response_deserializer=answer.FromString
    )


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()


class Answer:
    """An answer, and whether an earlier try of the same call may have reached the store."""

    def __init__(self, message: Any, tries: int) -> None:
        self.message = message
        self.retried = tries > 1


async def call(stub: Callable[..., Any], request: Message, timeout: float, retry: bool) -> Answer:
    """Raises EtcdError. A call waits for the connection inside its deadline; `retry` also repeats one that broke."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    pause, tries = FIRST_PAUSE, 0
    while True:
        tries += 1
        try:
            left = max(0.001, deadline - loop.time())
            return Answer(await stub(request, timeout=left, wait_for_ready=True), tries)
        except grpc.aio.AioRpcError as failure:
            error = etcd_error(failure)
        left = deadline - loop.time() - pause
        if not retry or left <= 0 or type(error) is not Unavailable:
            raise error
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(pause * 2, LONGEST_PAUSE)
