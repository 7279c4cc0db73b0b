"""The client for programs without asyncio."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import grpc

from protocols.messages.devices import PodAllocation
from protocols.podresources.convert import allocatable, machine, pod
from protocols.podresources.session import PodWatchSession
from protocols.podresources.types import Allocatable, AllocatableEvent, PodEvent, WatchOptions
from protocols.podresources.watch_state import AllocatableState, PodState
from protocols.wire.methods import CLIENT_OPTIONS, Method
from protocols.wire.pod_resources import GET, GET_ALLOCATABLE, LIST, LIST_AND_WATCH, LIST_AND_WATCH_ALLOCATABLE

ANSWER_S = 10.0
DEFAULTS = WatchOptions()
E = TypeVar("E")


class BlockingPodResources:
    """Use it with `with`, or `close` it: that also ends a watch that another thread reads."""

    def __init__(self, socket: Path | str, timeout: float = ANSWER_S) -> None:
        self._channel = grpc.insecure_channel(f"unix:{socket}", options=CLIENT_OPTIONS)
        self._timeout = timeout
        self._closed = False

    def __enter__(self) -> "BlockingPodResources":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._closed = True
        self._channel.close()

    def list(self) -> list[PodAllocation]:
        """Return all pods; uids are empty, since List has none."""
        return [pod(shown, "") for shown in self._ask(LIST).pod_resources]

    def get(self, namespace: str, name: str) -> PodAllocation:
        return pod(self._ask(GET, pod_namespace=namespace, pod_name=name).pod_resources, "")

    def allocatable(self) -> Allocatable:
        reply = self._ask(GET_ALLOCATABLE)
        shown = machine(reply)
        return Allocatable(tuple(allocatable(reply).values()), shown.cpus, shown.memory)

    def watch(self, options: WatchOptions = DEFAULTS) -> Iterator[PodEvent]:
        """Yield changes of allocations until `close`. Raises WatchUnsupported or WatchRefused."""
        return self._watch(PodWatchSession[PodEvent](PodState(), options), LIST_AND_WATCH, LIST)

    def watch_allocatable(self, options: WatchOptions = DEFAULTS) -> Iterator[AllocatableEvent]:
        """Yield changes of resources until `close`. Raises WatchUnsupported or WatchRefused."""
        session = PodWatchSession[AllocatableEvent](AllocatableState(), options)
        return self._watch(session, LIST_AND_WATCH_ALLOCATABLE, GET_ALLOCATABLE)

    def _watch(self, session: PodWatchSession[E], watching: Method[Any, Any], listing: Method[Any, Any]) -> Iterator[E]:
        stream = self._channel.unary_stream(
            watching.path,
            request_serializer=watching.request.SerializeToString,
            response_deserializer=watching.reply.FromString,
        )
        while not self._closed:
            call: Any = stream(watching.request(), metadata=session.metadata())
            try:
                headers = {str(key): str(value) for key, value in call.initial_metadata() or ()}
                if session.joined(headers, ended=not call.is_active()):
                    yield from session.listed(self._ask(listing))
                for message in call:
                    yield from session.message(message)
                pause = session.ended(call.code(), call.details())
            except grpc.RpcError as error:
                pause = 0.0 if self._closed else session.ended(*_told(error))
            finally:
                call.cancel()
            time.sleep(pause)

    def _ask(self, method: Method[Any, Any], **fields: str) -> Any:
        call = self._channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.reply.FromString,
        )
        return call(method.request(**fields), timeout=self._timeout)


def _told(error: Any) -> tuple[grpc.StatusCode, str]:
    return error.code(), error.details() or ""
