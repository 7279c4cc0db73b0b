"""Unary calls with a deadline, and retries where they are safe."""

import asyncio
import random
from typing import Any

import grpc
from google.protobuf.message import Message

from protocols.etcd.errors import DeadlineExceeded, EtcdError, Unavailable, etcd_error
from protocols.etcd.members import Method

FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.5
FIRST_PART = 1 / 6
"""A member of several that is silent for this part of a repeatable call's time is left for the next one, which gets
twice as long: what a member took from us before the leader died is lost without a word."""


class Answer:
    """An answer, and whether an earlier try of the same call may have reached the store."""

    def __init__(self, message: Any, tries: int) -> None:
        self.message = message
        self.retried = tries > 1


async def call(method: Method, request: Message, timeout: float, retry: bool) -> Answer:
    """Raises EtcdError. A call waits for the connection inside its deadline; `retry` also repeats one that broke."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    patience = timeout * FIRST_PART if retry and method.members.several else timeout
    pause, tries = FIRST_PAUSE, 0
    while True:
        tries += 1
        left = max(0.001, deadline - loop.time())
        member = await method.members.connected(left)
        left = max(0.001, min(deadline - loop.time(), patience))
        patience *= 2
        try:
            return Answer(await ask(method, member, request, left), tries)
        except EtcdError as failure:
            error = failure
        left = deadline - loop.time() - pause
        if not retry or left <= 0 or not _worth_another(error, method.members.several):
            raise error
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(pause * 2, LONGEST_PAUSE)


async def ask(method: Method, member: int, request: Message, timeout: float) -> Any:
    """One try at one member."""
    members = method.members
    try:
        return await method.stub(member)(request, timeout=timeout, wait_for_ready=not members.several)
    except grpc.aio.AioRpcError as failure:
        error = etcd_error(failure)
    if isinstance(error, Unavailable):
        members.blame(member)
    raise error


def _worth_another(error: EtcdError, several: bool) -> bool:
    return type(error) is Unavailable or (several and type(error) is DeadlineExceeded)
