"""Unary calls with a deadline, and retries where they are safe."""

import asyncio
import random
from time import monotonic
from typing import Any

import grpc
from google.protobuf.message import Message

from protocols.etcd.errors import DeadlineExceeded, EtcdError, NotSent, OutcomeUnknown, Unavailable, etcd_error
from protocols.etcd.members import Method
from protocols.process.rates import backoff_delay

FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.5
FIRST_PART = 1 / 6
"""A member of several that is silent for this part of a repeatable call's time is left for the next one, which gets
twice as long: what a member took from us before the leader died is lost without a word."""


async def call(method: Method, request: Message, timeout: float, retry: bool) -> Any:
    """Return the answer. Raises EtcdError.

    A call waits for the connection inside its deadline, also when a member did not take it. `retry` also repeats one
    that was sent; without it such a one, a write, ends with OutcomeUnknown.
    """
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
            return await method.stub(member)(request, timeout=left, wait_for_ready=not several)
        except grpc.aio.AioRpcError as failure:
            error = members.blamed(member, etcd_error(failure))
        pause = backoff_delay(tries, FIRST_PAUSE, LONGEST_PAUSE)
        left = deadline - monotonic() - pause
        if left <= 0 or not _worth_another(error, retry, several):
            raise _without_answer(error, retry)
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))


async def ask(method: Method, member: int, request: Message, timeout: float) -> Any:
    """Try a call once at one member, within the timeout; connects if nobody has called this member yet."""
    members, deadline = method.members, monotonic() + timeout
    if members.several:
        await members.channels[member].stands(timeout)
    left = max(0.001, deadline - monotonic())
    try:
        return await method.stub(member)(request, timeout=left, wait_for_ready=not members.several)
    except grpc.aio.AioRpcError as failure:
        raise members.blamed(member, etcd_error(failure)) from None


def _worth_another(error: EtcdError, retry: bool, several: bool) -> bool:
    if isinstance(error, NotSent):
        return True
    return retry and (type(error) is Unavailable or (several and type(error) is DeadlineExceeded))


def _without_answer(error: EtcdError, retry: bool) -> EtcdError:
    if retry or isinstance(error, NotSent) or not isinstance(error, Unavailable):
        return error
    return OutcomeUnknown(error)
