"""The process around an actor: command line, event loop, bus, signals, exit code (0 clean, 1 failed, 2 usage)."""

import asyncio
import faulthandler
import gc
import getopt
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import uvloop
from prometheus_client import CollectorRegistry, ProcessCollector

from protocols.actor.context import Actor, Arguments, Context, ContextOptions, Timings
from protocols.actor.heartbeats import STOPPING, Heartbeats
from protocols.actor.memory import Heap, Trimmer
from protocols.actor.metrics import BusCollector, SpanCollector, TaskCollector
from protocols.actor.metrics_text import page
from protocols.bus import Bus, BusOptions, Call
from protocols.errors import NodeplaneError, SettingsInvalid
from protocols.messages.supervisor import METRICS, Empty, MetricsText
from protocols.process.settings import Settings, load_settings
from protocols.process.tasks import FAILURES, awaited, one_line
from protocols.process.texts import LineFormatter, printable
from protocols.trace import RECORDER, serve_spans

Factory = Callable[[Context], Actor]
FLAGS = ["settings=", "instance=", "supervisor="]
LONGEST_INT = 640
"""Digits of a number in JSON; Python takes none below. Writing one costs the square of its digits: 650 numbers of 4,300
hold the interpreter for 0.15 s in one call."""
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def run_actor(name: str, factory: Factory, argv: list[str] | None = None) -> NoReturn:
    """Run one actor until SIGTERM or SIGINT, then leave the process. Never returns."""
    arguments = parse(name, argv)
    sys.set_int_max_str_digits(LONGEST_INT)
    faulthandler.enable(all_threads=True)  # SIGABRT from the supervisor: every stack goes to stderr
    try:
        settings = load_settings(Path(arguments.settings))
        log = _logger(arguments.instance, settings.log_level)
    except SettingsInvalid as error:
        _leave(f"{arguments.instance}: {error}", 2)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = runner.run(live(arguments, settings, factory, log))
    except NodeplaneError as error:
        _leave(f"{arguments.instance}: {error}", 1)
    except Exception as error:
        _leave(f"{arguments.instance}: {one_line(error)}", 1)
    sys.exit(code)


def parse(name: str, argv: list[str] | None) -> Arguments:
    """Return what the command line says; exits with code 2 on usage errors. See Arguments.

    Not by argparse: running it once writes to 0.7 MB of the pages that each actor shares with the forkserver.
    """
    try:
        options, rest = getopt.getopt(sys.argv[1:] if argv is None else argv, "", FLAGS)
        if rest:
            raise getopt.GetoptError(f"unexpected argument {rest[0]}")
        given = {flag.removeprefix("--"): value for flag, value in options}
        return Arguments(**{"instance": name, "supervisor": "supervisor"} | given)
    except (getopt.GetoptError, TypeError) as error:  # TypeError: no --settings
        _leave(f"{error}; usage: actors.{name} --settings FILE [--instance NAME] [--supervisor NAME]", 2)


async def live(arguments: Arguments, settings: Settings, factory: Factory, log: logging.Logger) -> int:
    """Run one incarnation with bus, actor and heartbeats; return the exit code."""
    timings, stopping, heap = Timings(), _obey_signals(), Heap()
    faults: list[Context] = []
    bus = Bus(
        BusOptions(
            name=arguments.instance,
            run_dir=settings.layout.run,
            tick=timings.beat,
            on_fault=lambda error: faults[0].fail(error, "a sink or source"),
        )
    )
    await bus.start()
    beats = Heartbeats(bus, arguments.supervisor)
    registry = CollectorRegistry()
    context = Context(
        ContextOptions(
            settings=settings,
            bus=bus,
            log=log,
            registry=registry,
            beats=beats,
            stopping=stopping,
        )
    )
    faults.append(context)
    asyncio.get_running_loop().set_exception_handler(lambda _, details: _unhandled(context, details))
    _serve_metrics(bus, registry)
    serve_spans(bus)
    beats.start()
    context.spawn(Trimmer(heap).run(), "trim")
    return await _act(context, factory, beats, timings)


def _obey_signals() -> asyncio.Event:
    """Return an event that the first signal sets. Called before the bus binds: a visible process can be stopped."""
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    return stopping


async def _act(context: Context, factory: Factory, beats: Heartbeats, timings: Timings) -> int:
    actor = await _start(context, factory)
    gc.collect()
    gc.freeze()  # modules and start-up state never become garbage: later collections skip them
    await context.stopping.wait()
    beats.change(state=STOPPING)
    if context.fault is None and actor is not None:
        await _stop(context, actor, timings.stop)
    if context.fault is not None:
        _leave("", 1)  # no orderly end on a broken state: what a kill -9 leaves behind is safe, this may not be
    await _close(context, beats, timings.close)
    return 0


async def _start(context: Context, factory: Factory) -> Actor | None:
    """Start the actor; a signal or a fault in the meantime cuts it short."""
    try:
        actor = factory(context)
    except Exception as error:
        context.fail(error, "start")
        return None
    starting, stopping = awaited(actor.start(), "start"), awaited(context.stopping.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.wait((starting,), timeout=1.0)
    elif (failure := starting.exception()) is not None:
        context.fail(failure, "start")
    return actor


async def _stop(context: Context, actor: Actor, within: float) -> None:
    try:
        async with asyncio.timeout(within):
            await actor.stop()
    except TimeoutError:
        context.fail(TimeoutError(f"did not stop within {within:g} s"), "stop")
    except Exception as error:
        context.fail(error, "stop")


async def _close(context: Context, beats: Heartbeats, within: float) -> None:
    beats.stop()
    try:
        async with asyncio.timeout(within):
            await context.cancel_tasks()
            await context.bus.close()
    except TimeoutError:
        context.log.warning("tasks did not end within %g s; leaving all the same", within)
        _leave("", 0)


def _unhandled(context: Context, details: dict[str, Any]) -> None:
    """Log an exception that no task and no caller handled, on one line.

    On MemoryError the loop may have dropped a listener or a timer for good while all else goes on: only a new process
    repairs that.
    """
    error, what = details.get("exception"), details.get("message", "in the event loop")
    if isinstance(error, MemoryError):
        return context.fail(error, "memory")
    FAILURES["callback"] += 1
    context.log.error("%s: %s", what, one_line(error) if error else "no exception")
    return context.log.debug("%s", what, exc_info=error)


def _serve_metrics(bus: Bus, registry: CollectorRegistry) -> None:
    ProcessCollector(registry=registry)
    registry.register(BusCollector(bus))
    registry.register(SpanCollector(RECORDER))
    registry.register(TaskCollector())

    async def metrics(request: Empty, call: Call) -> MetricsText:
        return MetricsText(await page(registry))

    bus.serve(METRICS, Empty, metrics)


def _logger(instance: str, level: str) -> logging.Logger:
    """Log one line each to stderr; the supervisor stores, bounds and labels them."""
    if level not in LEVELS:
        raise SettingsInvalid(f"log_level {level!r} is not one of {', '.join(LEVELS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=LEVELS[level], force=True)
    return logging.getLogger(instance)


def _leave(line: str, code: int) -> NoReturn:
    """End now, with at most one line: leftover tasks and threads have no say."""
    if line:
        print(printable(" ".join(line.split())), file=sys.stderr)
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)
