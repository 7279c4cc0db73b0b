"""The plane of a test session: started once, asked by every test."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import urlopen

from protocols.errors import NodeplaneError
from protocols.messages.calls import CallRecord
from protocols.messages.devices import ChaosDevice, DraDriver
from protocols.messages.supervisor import ActorStatus
from protocols.process.layout import Layout
from pytest_nodeplane.outage import Outage
from pytest_nodeplane.sentences import plugin_reason, pod_reason
from pytest_nodeplane.waiting import until
from supervisor.base.errors import UsageError
from supervisor.base.groups import NODE, RUNTIME
from supervisor.calls.client import CallQuery, read_calls
from supervisor.cli.inspect.devices import ResourceRow, resource_rows
from supervisor.client.connection import Asking, ask
from supervisor.client.devices import DeviceRow, device_rows
from supervisor.client.drivers import ClaimDeviceRow, drivers_view
from supervisor.testing.api import Api
from supervisor.testing.plane import TestPlane, environment_of
from supervisor.trace.collect import PodTrace, pod_trace
from supervisor.tree.states import SERVING

R = TypeVar("R")
METRICS_S, WHY_S = 10.0, 15.0
FURTHER = f"{NODE}-"
"""Actors that are further nodes: node-2, node-3."""


class PatientApi(Api):
    """The API, whose calls may all be made again: they read, apply and delete."""

    def __init__(self, where: Layout, outage: Outage) -> None:
        super().__init__(where)
        self._outage = outage

    def ask(self, *words: Any, **options: Any) -> dict[str, Any]:
        return self._outage.ride(lambda: super(PatientApi, self).ask(*words, **options))


class Plane:
    """A running plane. Its methods block and may be called from a test with an event loop."""

    def __init__(self, flags: Sequence[str]) -> None:
        self._process = TestPlane(flags)
        self._asking = ThreadPoolExecutor(1, "nodeplane")

    def start(self) -> None:
        """Raises PlaneNotStarted."""
        self._process.start()

    def stop(self) -> None:
        for node in self.__dict__.get("further", ()):
            node.stop()
        if "api" in self.__dict__:
            self.api.close()
        self._asking.shutdown()
        self._process.stop()

    @cached_property
    def layout(self) -> Layout:
        return self._process.layout

    @property
    def programs(self) -> Path:
        """Directory for records of programs, which end also when pytest is killed."""
        return self._process.programs

    @cached_property
    def further(self) -> "list[FurtherNode]":
        """The nodes beside the first, when they serve; as many as the table `[tool.nodeplane]` asks for."""
        numbers = sorted(int(name.removeprefix(FURTHER)) for name in self.actors() if name.startswith(FURTHER))
        first = self.environment["NODE_NAME"]
        nodes = [FurtherNode(self, self.layout.node(f"{first}-{number}")) for number in numbers]
        for node in nodes:
            node.wait_started()
        return nodes

    @cached_property
    def environment(self) -> dict[str, str]:
        """Variables by which programs find the plane: KUBECONFIG, NODEPLANE_KUBELET_DIR and others.

        PATH ends with the directory of this installation, where `nodeplane` is.
        """
        return self._asking.submit(self._process.environment).result()

    @cached_property
    def outage(self) -> Outage:
        """Entered by the mark `kill_at_every_step` while an actor that it killed is not back."""
        return Outage()

    @cached_property
    def api(self) -> Api:
        return PatientApi(self.layout, self.outage)

    def ask(self, question: Callable[[Asking], Awaitable[R]]) -> R:
        """Ask over the bus, from a thread without an event loop."""
        return self.outage.ride(lambda: self._asking.submit(ask, self.layout, question).result())

    def actors(self) -> dict[str, ActorStatus]:
        return {actor.instance: actor for actor in self.ask(Asking.status).actors}

    def devices(self) -> list[DeviceRow]:
        return self.ask(device_rows)

    def resources(self) -> list[ResourceRow]:
        """Return every resource that the node has or had, with its plugins."""
        return self.ask(resource_rows)

    def claim_devices(self) -> list[ClaimDeviceRow]:
        """Return the devices of prepared claims, of DRA drivers."""
        return list(self.ask(drivers_view).devices)

    def drivers(self) -> dict[str, DraDriver]:
        """Return the registered DRA drivers by name."""
        return {row.driver.name: row.driver for row in self.ask(drivers_view).drivers}

    def calls(self, peer: str = "", *, show_secrets: bool = False) -> list[CallRecord]:
        """Return the calls to a device plugin or DRA driver and its own, the oldest first.

        `show_secrets`: with the values of environment variables, which may be credentials.
        """
        return self.ask(lambda asking: read_calls(asking.bus, CallQuery(peer, show_secrets)))

    def trace(self, namespace: str, pod: str) -> PodTrace:
        """Return the steps of a pod's life. Raises UsageError if no process knows it."""
        return self._asking.submit(asyncio.run, pod_trace(self.layout, namespace, pod)).result()

    def why(self, namespace: str, pod: str) -> str:
        """Return the text of `nodeplane why` about a pod; empty if the plane does not know it."""
        return self._reason(pod_reason(self.layout, namespace, pod))

    def why_plugin(self, resource: str) -> str:
        """Return the state of a resource's plugin with the reason; empty if the plane cannot be asked."""
        return self._reason(plugin_reason(self.layout, resource))

    def _reason(self, found: Coroutine[None, None, str]) -> str:
        try:
            return self._asking.submit(asyncio.run, asyncio.wait_for(found, WHY_S)).result()  # noqa: TID251  # nothing cancels it
        except (NodeplaneError, OSError, TimeoutError):  # a broken plane must not hide what did not happen
            return ""

    def metric(self, name: str) -> float:
        """Return the sum of a metric's samples, 0 without any."""
        with urlopen(self.environment["NODEPLANE_METRICS_URL"], timeout=METRICS_S) as page:
            lines = page.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.split("{")[0].split(" ")[0] == name)

    def override_health(self, order: ChaosDevice) -> None:
        self.ask(lambda asking: asking.override_health(order))

    def kill(self, instance: str, number: int) -> None:
        """Send a signal to an actor; if it ends, wait until its successor serves. Raises UsageError for no actor."""
        actors = self.actors()
        if instance not in actors:
            raise UsageError(f"no actor is called {instance!r}; there are {', '.join(sorted(actors))}")
        before = actors[instance]
        self.ask(lambda asking: asking.kill(instance, number))
        if number == 9:
            self._wait_restarted({instance: before.pid})

    def restart_kubelet(self) -> None:
        """Restart all that a kubelet is, in an orderly way; the runtime and its containers go on."""
        actors = self.actors().values()
        before = {actor.instance: actor.pid for actor in actors if actor.group == NODE and actor.instance != RUNTIME}

        async def question(asking: Asking) -> None:
            for instance in before:
                await asking.restart(instance)

        self.ask(question)
        self._wait_restarted(before)

    def _wait_restarted(self, before: dict[str, int]) -> None:
        def restarted() -> bool:
            actors = self.actors()
            return all(
                actors[name].pid not in (0, pid) and actors[name].state in SERVING for name, pid in before.items()
            )

        until(f"{', '.join(before)} restarted", restarted)

    def wait_serving(self) -> None:
        until("every actor serves", lambda: all(actor.state in SERVING for actor in self.actors().values()))


class FurtherNode(Plane):
    """A node beside the first one of a plane: sockets and actors of its own, the plane's API."""

    def __init__(self, first: Plane, where: Layout) -> None:
        self._first, self._where = first, where
        self._asking = ThreadPoolExecutor(1, "nodeplane")

    def stop(self) -> None:
        self._asking.shutdown()

    def wait_started(self) -> None:
        until(f"node {self._where.root.name} has started", self._started)
        self.wait_serving()

    def _started(self) -> bool:
        try:
            return bool(self.actors())
        except (NodeplaneError, OSError):
            return False

    @cached_property
    def layout(self) -> Layout:
        return self._where

    @property
    def programs(self) -> Path:
        return self._first.programs

    @cached_property
    def further(self) -> "list[FurtherNode]":
        return []

    @cached_property
    def environment(self) -> dict[str, str]:
        return self._asking.submit(environment_of, self._where).result()

    @cached_property
    def outage(self) -> Outage:
        return self._first.outage

    @cached_property
    def api(self) -> Api:
        return self._first.api

    def trace(self, namespace: str, pod: str) -> PodTrace:
        return self._first.trace(namespace, pod)

    def why(self, namespace: str, pod: str) -> str:
        return self._first.why(namespace, pod)
