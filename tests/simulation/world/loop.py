"""The event loop of a simulated process: asyncio's own, with virtual time and without a kernel."""

import asyncio
import heapq
import itertools
import math
from asyncio import base_events
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from tests.simulation.world.network import Server
from tests.simulation.world.transport import connect

if TYPE_CHECKING:
    from tests.simulation.world.process import Process
    from tests.simulation.world.world import World


_numbers = itertools.count(1)


def _by_first_use(self: Any) -> int:
    number: int = self._number
    if not number:
        number = self._number = next(_numbers)
    return number


class NoEntropyFuture(asyncio.Future[Any]):
    """Hashed by a number that it gets when it is first hashed: sets of futures have the same order in each run."""

    _number = 0
    __hash__ = _by_first_use


class NoEntropyTask(asyncio.Task[Any]):
    _number = 0
    __hash__ = _by_first_use


class LeanHandle(asyncio.Handle):
    """A callback that is due; made and run without what asyncio's debug mode needs."""

    __slots__ = ()
    _repr = _source_traceback = None

    def __init__(self, callback: Any, args: Any, loop: "SimLoop", context: Any) -> None:
        self._context = copy_context() if context is None else context
        self._loop, self._callback, self._args, self._cancelled = loop, callback, args, False


class LeanTimer(asyncio.TimerHandle):
    """The same at a time."""

    __slots__ = ()
    _callback: Any
    _args: Any
    _repr = _source_traceback = None

    def __init__(self, when: float, callback: Any, args: Any, loop: "SimLoop", context: Any) -> None:
        self._context = copy_context() if context is None else context
        self._loop, self._callback, self._args, self._cancelled = loop, callback, args, False
        self._when, self._scheduled = when, True

    def __lt__(self, other: Any) -> bool:
        return self._when < other._when  # type: ignore[no-any-return]

    def cancel(self) -> None:
        if not self._cancelled:
            self._loop._timer_cancelled_count += self._scheduled
            self._cancelled, self._callback, self._args = True, None, None


class SimLoop(base_events.BaseEventLoop):
    """Sockets are those of the world; readers are told by whoever owns a simulated descriptor."""

    def __init__(self, world: "World", process: "Process") -> None:
        super().__init__()
        self._world, self._process, self._boot = world, process, process.clock.boot
        self._clock_resolution = 1e-9
        self._ready: Any
        self._scheduled: Any
        self._timer_cancelled_count: int
        self.signals: dict[int, tuple[Callable[..., object], tuple[Any, ...]]] = {}
        self.listening: dict[int, Any] = {}
        """Listening sockets by their descriptors."""
        self.readers: dict[int, Callable[[], object]] = {}

    def time(self) -> float:
        return self._world.now + self._boot

    def due_at(self) -> float:
        """Return the time, by its own clock, at which a turn would do something."""
        if self._ready:
            return -math.inf
        scheduled = self._scheduled
        while scheduled and scheduled[0]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(scheduled)._scheduled = False
        return scheduled[0]._when if scheduled else math.inf

    def turn(self) -> None:
        """Run what is ready: as asyncio's own loop does, without a selector."""
        ready, scheduled = self._ready, self._scheduled
        if self._timer_cancelled_count > 100 and self._timer_cancelled_count * 2 > len(scheduled):
            self._drop_cancelled()
        end = self._world.now + self._boot + self._clock_resolution
        while scheduled and (first := scheduled[0])._when < end:
            heapq.heappop(scheduled)
            first._scheduled = False
            if first._cancelled:
                self._timer_cancelled_count -= 1
            else:
                ready.append(first)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                try:
                    handle._context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    message = f"Exception in callback {handle!r}"
                    self.call_exception_handler({"message": message, "exception": error, "handle": handle})

    def _drop_cancelled(self) -> None:
        kept = []
        for handle in self._scheduled:
            if handle._cancelled:
                handle._scheduled = False
            else:
                kept.append(handle)
        heapq.heapify(kept)
        self._scheduled[:] = kept
        self._timer_cancelled_count = 0

    def call_soon(  # type: ignore[override]  # its types are those of one overload
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        handle = LeanHandle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]  # its types are those of one overload
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        timer = LeanTimer(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        return NoEntropyFuture(loop=self)

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> asyncio.Task[Any]:
        return NoEntropyTask(coro, loop=self, name=name, context=context)

    def _process_events(self, event_list: object) -> None: ...
    def _write_to_self(self) -> None: ...

    def add_signal_handler(self, sig: int, callback: Any, *args: Any) -> None:  # type: ignore[override]
        self.signals[sig] = callback, args

    def remove_signal_handler(self, sig: int) -> bool:
        return self.signals.pop(sig, None) is not None

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:  # type: ignore[override]
        self.readers[fd] = lambda: callback(*args)
        if (listening := self.listening.get(fd)) is not None:
            listening.wake()

    def remove_reader(self, fd: Any) -> bool:
        return self.readers.pop(fd, None) is not None

    def run_in_executor(  # type: ignore[override]  # its types are those of one overload
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Do the work at a drawn time, and hand its result over a little later."""
        future = self.create_future()
        self._process.thread(lambda: func(*args), lambda value, error: _settle(future, value, error))
        return future

    async def create_unix_server(self, protocol_factory: Any, path: Any = None, **given: Any) -> Any:
        if (sock := given.get("sock")) is not None:
            path = sock.getsockname()
            sock.close()  # the file stays, as after the death of a process
        return Server(self._world.network, self._process, f"unix:{path}", protocol_factory)

    async def create_unix_connection(self, protocol_factory: Any, path: Any = None, **_: Any) -> Any:
        return await connect(self._world.network, self._process, f"unix:{path}", protocol_factory)

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **given: Any) -> Any:
        if (sock := given.get("sock")) is not None:
            _, port = sock.getsockname()[:2]
        return Server(self._world.network, self._process, f"tcp:{port}", protocol_factory)

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **given: Any) -> Any:
        if (destination := given.get("sock")) is not None:
            _, port = destination
        credentials = given.get("ssl")
        return await connect(self._world.network, self._process, f"tcp:{port}", protocol_factory, credentials)

    async def connect_accepted_socket(self, protocol_factory: Any, sock: Any, **_: Any) -> Any:
        sock.far.attach(protocol_factory())
        return sock.far, sock.far.protocol

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        return [(2, 1, 6, "", (str(host), int(port)))]


def _settle(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)
