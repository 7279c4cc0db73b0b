"""Unary calls with a deadline, and retries where they are safe."""

import asyncio
import random
from time import monotonic
from typing import Any

import grpc
from google.protobuf.message import Message

from protocols.etcd.errors import DeadlineExceeded, EtcdError, Unavailable, etcd_error
from protocols.etcd.members import Method
from protocols.process.rates import backoff_delay

FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.5
FIRST_PART = 1 / 6
"""A member of several that is silent for this part of a repeatable call's time is left for the next one, which gets
twice as long: what a member took from us before the leader died is lost without a word."""


class Answer:
    """An answer, and whether an earlier try of the same call may have reached the store."""

    __slots__ = ("message", "retried")

    def __init__(self, message: Any, tries: int) -> None:
        self.message = message
        self.retried = tries > 1


async def call(method: Method, request: Message, timeout: float, retry: bool) -> Answer:
    """Raises EtcdError. A call waits for the connection inside its deadline; `retry` also repeats one that broke."""
    members, several = method.members, method.members.several
    deadline = monotonic() + timeout
    patience = timeout * FIRST_PART if retry and several else timeout
    tries = 0
    while True:
        tries += 1
        member = members.at_hand
        if member is None:
            member = await members.connected(max(0.001, deadline - monotonic()))
        left = max(0.001, min(deadline - monotonic(), patience))
        patience *= 2
        try:
            answer = await method.stub(member)(request, timeout=left, wait_for_ready=not several)
            return Answer(answer, tries)
        except grpc.aio.AioRpcError as failure:
            error = members.blamed(member, etcd_error(failure))
        pause = backoff_delay(tries, FIRST_PAUSE, LONGEST_PAUSE)
        left = deadline - monotonic() - pause
        if not retry or left <= 0 or not _worth_another(error, several):
            raise error
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))


async def ask(method: Method, member: int, request: Message, timeout: float) -> Any:
    """One try at one member, within the timeout. It connects: nobody else may have called this member yet."""
    members, deadline = method.members, monotonic() + timeout
    if members.several:
        await members.channels[member].stands(timeout)
    left = max(0.001, deadline - monotonic())
    try:
        return await method.stub(member)(request, timeout=left, wait_for_ready=not members.several)
    except grpc.aio.AioRpcError as failure:
        raise members.blamed(member, etcd_error(failure)) from None


def _worth_another(error: EtcdError, several: bool) -> bool:
    return type(error) is Unavailable or (several and type(error) is DeadlineExceeded)
