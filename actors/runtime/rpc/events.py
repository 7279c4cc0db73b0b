"""GetContainerEvents."""

from collections.abc import AsyncGenerator

from actors.runtime.state.container_events import Events, Subscription
from protocols.wire import cri_pb2 as pb


class EventMethods:
    def __init__(self, events: Events) -> None:
        self._events = events

    def GetContainerEvents(self, request: pb.GetEventsRequest) -> AsyncGenerator[bytes, None]:
        """Subscribed when this returns, which is before the client sees the stream as open."""
        subscription = self._events.subscribe()
        return self._follow(subscription)

    async def _follow(self, subscription: Subscription) -> AsyncGenerator[bytes, None]:
        try:
            async for event in subscription.events():
                yield event
        finally:
            self._events.unsubscribe(subscription)
