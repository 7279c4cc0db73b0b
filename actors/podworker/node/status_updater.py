"""Register the Node object, patch its status when something changed, and send a heartbeat every 5 minutes."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import cast

import msgspec

from actors.podworker.node.lease import LeaseRenewer
from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.kinds.table import NODES
from protocols.kube import times
from protocols.kube.meta import Object
from protocols.kubeclient.client import ApiClient, ApiError, find
from protocols.lifecycle.node.status import (
    MachineInfo,
    NodeStatusInputs,
    advertised_resources,
    foreign_resources,
    heartbeat_patch,
    is_ready,
    new_node,
    node_annotations,
    node_events,
    node_labels,
    node_patch,
    node_status,
)
from protocols.messages.cri import RuntimeHandler
from protocols.messages.devices import Placement, ResourceInventory
from protocols.process.rates import TokenBucket, backoff_delay
from protocols.process.tasks import wait_set

GRACE_S = 30.0
"""Upstream's tolerance for a runtime that does not report."""
HEARTBEAT_S = 300.0
CHECK_S = 10.0
"""Upstream's nodeStatusUpdateFrequency: by then, labels that somebody removed are put back."""
RETRY_FIRST_S, RETRY_MOST_S = 0.05, 2.0
PATCHES_S, PATCHES_AT_ONCE = 2.0, 6.0
log = logging.getLogger("podworker")


class Readiness:
    """Readiness of the node: short absences of runtime or pleg (a restart) do not count.

    Pure. Times are monotonic seconds.
    """

    def __init__(self) -> None:
        self._last_good: float | None = None
        self._overdue = False
        self.faults: tuple[str, ...] = ("container runtime status check may not have completed yet",)

    def adopt(self, now: float) -> None:
        """Count Ready in the API, set before this process started, for the grace period."""
        if self._last_good is None:
            self._last_good = now

    def observe(self, faults: tuple[str, ...], now: float, overdue: bool = False) -> None:
        """Record the current faults, none if the node is healthy. Called on every change.

        `overdue`: a fault has lasted longer than upstream's threshold already, so the grace period does not apply.
        """
        self._overdue = overdue
        if not faults or not self.faults:
            self._last_good = now
        self.faults = faults

    @property
    def healthy(self) -> bool:
        """True without faults, regardless of the grace period."""
        return not self.faults

    def ready(self, now: float) -> bool:
        within_grace = self._last_good is not None and now - self._last_good < GRACE_S
        return self.healthy or (within_grace and not self._overdue)

    def recheck_in(self, now: float) -> float | None:
        """Return the seconds until the grace period ends; None if nothing changes by itself."""
        if self.healthy or self._last_good is None or not self.ready(now):
            return None
        return GRACE_S - (now - self._last_good)


class NodeState(msgspec.Struct, frozen=True):
    """Current state of the node, as to be reported."""

    faults: tuple[str, ...]
    """Reasons why the node cannot run pods."""
    overdue: bool = False
    """PLEG's own threshold has passed: the node is not ready at once."""
    runtime: str = ""
    inventory: Mapping[str, ResourceInventory] | None = None
    port: int = 0
    placement: Placement | None = None
    handlers: tuple[RuntimeHandler, ...] | None = None
    strict_groups: bool | None = None
    images: tuple[views.ContainerImage, ...] | None = None


class NodeStatusOptions(msgspec.Struct, frozen=True):
    """The node to register, and callbacks about what the API shows."""

    name: str
    machine: MachineInfo
    client: ApiClient
    state: Callable[[], NodeState]
    on_ready: Callable[[], None]
    """Called when the API shows Ready=True and the node is healthy; may be called repeatedly."""
    on_trouble: Callable[[str], None] = lambda text: None
    """Called with the reason why the API is not updated, and with "" when it is again."""
    record: Callable[[str, str, str], None] = lambda kind, reason, message: None
    """Records an event of the node: type, reason, message."""
    max_pods: int = 110


class NodeStatusUpdater:
    """Owns the Node object; `wake` is called when its state may have changed."""

    def __init__(self, options: NodeStatusOptions) -> None:
        self._options = options
        self._readiness = Readiness()
        self._node: views.Node | None = None
        self._stale = False
        self._changed = asyncio.Event()
        self._heartbeat_due = 0.0
        self._check_due = 0.0
        self._advertised = frozenset[str]()
        self._adopted = False
        """Resources that other clients added to the Node object before this process started are known."""
        self._pace = TokenBucket(PATCHES_S, PATCHES_AT_ONCE, PATCHES_AT_ONCE, time.monotonic())

    def wake(self) -> None:
        """Reconcile soon: NodeState has changed."""
        self._changed.set()

    def uid(self) -> str:
        """Empty until the node is registered."""
        return str(((self._node or {}).get("metadata") or {}).get("uid") or "")

    def node(self) -> views.Node:
        """Return the Node object as the API showed it last; before it is registered, as it will be."""
        return self._node or new_node(self._inputs(), times.now())

    def advertised(self) -> frozenset[str]:
        """Return the extended resources of the node that other clients added, which no device plugin provides."""
        return self._advertised

    async def refresh(self) -> None:
        """Read the Node object again. Raises NodeplaneError, OSError, TimeoutError."""
        if self._node is not None:
            await self._check(self._node)

    async def run(self) -> None:
        self._options.record("Normal", "Starting", "Starting kubelet.")
        failures = 0
        while True:
            await self._paced()
            self._changed.clear()
            try:
                await self._reconcile()
                if failures:
                    self._options.on_trouble("")
                failures = 0
                await self._wait()
            except (NodeplaneError, OSError, TimeoutError) as error:
                failures += 1
                self._options.on_trouble(f"node {self._options.name} not reported: {error}")
                if failures in (1, 20):
                    log.warning("node status not sent node=%s error=%s", self._options.name, error)
                await asyncio.sleep(backoff_delay(failures, RETRY_FIRST_S, RETRY_MOST_S))

    async def keep_lease(self) -> None:
        while self._node is None:  # noqa: ASYNC110 # only until registered, in the first moments
            await asyncio.sleep(0.1)
        options = self._options
        await LeaseRenewer(options.client, options.name, options.on_trouble, self._on_lease_late).run(self.uid)

    def _on_lease_late(self) -> None:
        """Read the node again: after a late lease, others may have marked it as lost."""
        self._stale = True
        self.wake()

    async def _wait(self) -> None:
        now = time.monotonic()
        delay = max(0.0, min(self._heartbeat_due, self._check_due) - now)
        recheck = self._readiness.recheck_in(now)
        await wait_set(self._changed, delay if recheck is None else min(delay, recheck))

    async def _reconcile(self) -> None:
        node = self._node
        if node is None or self._stale:
            node = await self._register()
            self._stale = False
        elif time.monotonic() >= self._check_due:
            node = await self._check(node)
        desired, before = self._desired(node), node.get("status") or {}
        self._report_readiness()  # before the write: while the API's disk is full, only other fields may be late
        patch = node_patch(before, desired)
        if patch is None and time.monotonic() >= self._heartbeat_due:
            patch = heartbeat_patch(desired, times.now())
        if patch is not None:
            self._pace.take(time.monotonic())
            await self._patch(patch)
            self._record_events(before, desired)
        self._report_readiness()

    def _report_readiness(self) -> None:
        if self._node is not None and is_ready(self._node) and self._readiness.healthy:
            self._options.on_ready()

    async def _paced(self) -> None:
        """Wait for the rate limit. Flapping devices change what is allocatable, and may be back by then."""
        now = time.monotonic()
        await asyncio.sleep(max(0.0, self._pace.ready(now) - now))

    def _inputs(self) -> NodeStatusInputs:
        state, now = self._options.state(), time.monotonic()
        self._readiness.observe(state.faults, now, state.overdue)
        return NodeStatusInputs(
            name=self._options.name,
            machine=self._options.machine,
            ready=self._readiness.ready(now),
            message="; ".join(state.faults),
            max_pods=self._options.max_pods,
            runtime=state.runtime,
            inventory=state.inventory if self._adopted else None,
            port=state.port,
            placement=state.placement,
            handlers=state.handlers,
            strict_groups=state.strict_groups,
            images=state.images,
            advertised=self._advertised,
        )

    def _desired(self, node: views.Node) -> views.NodeStatus:
        if not self._adopted:
            self._adopt_resources(node)
        return node_status(self._inputs(), node.get("status") or {}, times.now())

    def _adopt_resources(self, node: views.Node) -> None:
        state = self._options.state()
        if state.inventory is not None and state.placement is not None:
            self._adopted = True
            self._advertised |= foreign_resources(node, state.inventory, state.placement.ledger_ns)

    async def _register(self) -> views.Node:
        """Adopt the existing Node object, or create it."""
        client, name = self._options.client, self._options.name
        node = cast("views.Node | None", await find(client, NODES, name))
        if node is None:
            self._adopted = True
            node = cast("views.Node", await client.create(NODES, new_node(self._inputs(), times.now())))
            self._record_events({}, node["status"])
        else:
            if is_ready(node):
                self._readiness.adopt(time.monotonic())
            node = await self._label(node)
        self._node = node
        self._heartbeat_due = time.monotonic() + HEARTBEAT_S
        self._check_due = time.monotonic() + CHECK_S
        return node

    async def _check(self, node: views.Node) -> views.Node:
        """Read the Node object and put back what others removed. A deleted one is left to the next status patch."""
        self._check_due = time.monotonic() + CHECK_S
        try:
            read = await self._options.client.get(NODES, self._options.name)
            current = await self._label(cast("views.Node", read))
        except ApiError as error:
            if error.code != 404:
                raise
            return node
        self._advertised |= advertised_resources(node, current)
        self._node = current
        return current

    async def _label(self, node: views.Node) -> views.Node:
        metadata, inputs = node.get("metadata") or {}, self._inputs()
        desired = (
            ("labels", node_labels(inputs), metadata.get("labels")),
            ("annotations", node_annotations(inputs), metadata.get("annotations")),
        )
        missing = {
            field: {key: value for key, value in pairs.items() if (known or {}).get(key) != value}
            for field, pairs, known in desired
        }
        if not any(missing.values()):
            return node
        patched = await self._options.client.patch(NODES, self._options.name, body={"metadata": missing})
        return cast("views.Node", patched)

    def _record_events(self, before: views.NodeStatus, desired: views.NodeStatus) -> None:
        for event in node_events(self._options.name, before, desired):
            self._options.record(*event)

    async def _patch(self, patch: Object) -> None:
        try:
            patched = await self._options.client.patch(
                NODES, self._options.name, body=patch, kind="strategic", subresource="status"
            )
            self._node = cast("views.Node", patched)
        except ApiError as error:
            if error.code == 404:
                self._node = None  # another client deleted it: register again
            raise
        self._heartbeat_due = time.monotonic() + HEARTBEAT_S
