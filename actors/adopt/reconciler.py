"""List kubelet's pods, compare them with what is published, and publish the difference."""

import asyncio
import logging
import time
from collections.abc import Callable

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge

from actors.adopt.allocation_diff import desired_pods, diff_steps, exclusive_resources, find_conflict
from actors.adopt.errors import KubeletBusy, ListInconsistent
from actors.adopt.kubelet_client import KubeletClient
from actors.adopt.pod_identity import PodIdentities, PodName, Sandbox, list_sandboxes
from actors.adopt.published_state import PublishedState, StateFile
from protocols.bus import Bus
from protocols.errors import NodeplaneError
from protocols.messages.devices import LedgerEvent, PodAllocation
from protocols.podresources import convert
from protocols.process.families import CounterFamily, GaugeFamily
from protocols.process.rates import backoff_delay
from protocols.process.tasks import wait_set
from protocols.wire import podresources_v1_pb2 as v1

AFTER_EVENT_S = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Lists after the newest runtime event: kubelet releases resources some time after their container has ended."""
MIN_INTERVAL_S = 0.1
"""Between two lists of two calls each: at most a fifth of kubelet's rate limit, which all its clients share."""
RETRY_FIRST_S, RETRY_MAX_S = 0.1, 5.0


class ListSchedule:
    """Decide when to list kubelet next. Pure: callers pass the current time in seconds.

    A runtime event causes a list at once and more with growing pauses. In addition kubelet is polled, for changes that
    no event reports (device plugins) and for runtimes without events.
    """

    def __init__(self, poll_s: float, eventless_s: float) -> None:
        """Poll every `poll_s`, or every `eventless_s` if that is shorter and the runtime sends no events."""
        self._poll_s, self._eventless_s = poll_s, eventless_s
        self.events_available = False
        self._event_at: float | None = None
        self._lists_after_event = len(AFTER_EVENT_S)
        self._listed_at = float("-inf")
        self._failures = 0

    def event(self, now: float) -> None:
        self._event_at, self._lists_after_event = now, 0

    def listed(self, now: float, ok: bool) -> None:
        """Record a list that began at `now`."""
        self._listed_at = now
        self._failures = 0 if ok else self._failures + 1
        while ok and (due := self._due_after_event()) is not None and due <= now:
            self._lists_after_event += 1

    def due(self) -> float:
        if self._failures:
            return self._listed_at + backoff_delay(self._failures, RETRY_FIRST_S, RETRY_MAX_S)
        due = self._listed_at + (self._poll_s if self.events_available else min(self._poll_s, self._eventless_s))
        if (after_event := self._due_after_event()) is not None:
            due = min(due, after_event)
        return max(due, self._listed_at + MIN_INTERVAL_S)

    def _due_after_event(self) -> float | None:
        if self._event_at is None or self._lists_after_event == len(AFTER_EVENT_S):
            return None
        return self._event_at + AFTER_EVENT_S[self._lists_after_event]


CURRENT = GaugeFamily("nodeplane_adopt_kubelet_current", "1 while the adopted kubelet answers, else 0.")
LISTS = CounterFamily("nodeplane_adopt_lists_total", "Lists of the adopted kubelet, by their result.", ("result",))
EVENTS = CounterFamily("nodeplane_adopt_container_events_total", "Container events of the adopted kubelet's runtime.")
RETAINED = GaugeFamily("nodeplane_adopt_pods_kept", "Pods that run but that kubelet does not list, or not yet.")


class AdoptMetrics:
    """Counters of lists and of what they led to."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.current = Gauge(*CURRENT, registry=registry)
        self.lists = Counter(*LISTS, registry=registry)
        self.events = Counter(*EVENTS, registry=registry)
        self.retained = Gauge(*RETAINED, registry=registry)


class ReconcilerOptions(msgspec.Struct, frozen=True):
    """Dependencies of the reconciler."""

    kubelet: KubeletClient
    bus: Bus
    state: PublishedState
    file: StateFile
    schedule: ListSchedule
    metrics: AdoptMetrics
    log: logging.Logger
    on_status: Callable[[bool, str], None]
    """Called after each list with whether the published state is current, and the error, or ""."""


class Reconciler:
    """Run one list at a time, whenever the schedule says."""

    def __init__(self, options: ReconcilerOptions) -> None:
        self._options = options
        self._identities = PodIdentities()
        self._schedule_changed = asyncio.Event()
        self._logged_error = ""
        self._logged_disk_error = ""

    def runtime_event(self, sandbox: Sandbox | None) -> None:
        """Take an event of the runtime, about `sandbox` if it names one."""
        if sandbox:
            self._identities.add(sandbox)
        self._options.metrics.events.inc()
        self._reschedule()

    def set_events_available(self, available: bool) -> None:
        """Record whether the runtime sends events. Some may have been missed around either change."""
        self._options.schedule.events_available = available
        self._reschedule()

    def _reschedule(self) -> None:
        self._options.schedule.event(time.monotonic())
        self._schedule_changed.set()

    async def run(self) -> None:
        await self._restore()
        while True:
            await self._wait_until_due()
            started = time.monotonic()
            ok = await self._reconcile()
            self._options.schedule.listed(started, ok)

    async def _restore(self) -> None:
        state, warning = await asyncio.to_thread(self._options.file.load)
        self._log_disk_error(warning)
        if state:
            self._options.state.restore(state)
            self._identities.restore(
                ((pod.namespace, pod.name), pod.uid, exclusive_resources(pod)) for pod in state.pods
            )

    async def _wait_until_due(self) -> None:
        while (pause := self._options.schedule.due() - time.monotonic()) > 0:
            self._schedule_changed.clear()
            await wait_set(self._schedule_changed, pause)

    async def _reconcile(self) -> bool:
        """Return True if the list succeeded."""
        result = "well"
        try:
            await self._list_and_publish()
            self._report(True, "")
        except KubeletBusy as error:
            result = "busy"
            self._report(True, str(error))
        except ListInconsistent as error:
            result = "torn"
            self._report(True, str(error))
        except NodeplaneError as error:
            result = "failed"
            self._report(False, str(error))
        self._options.metrics.lists.labels(result).inc()
        return result == "well"

    async def _list_and_publish(self) -> None:
        """Publish nothing unless every call of the list succeeds."""
        kubelet, state = self._options.kubelet, self._options.state
        allocatable = await kubelet.allocatable()
        response = await kubelet.list()
        listed = await self._identify(response)
        if (conflict := find_conflict(listed.values())) is not None:
            raise ListInconsistent(f"kubelet's list gives {' '.join(conflict)} to two pods; it is retried")
        desired = desired_pods(state.pods, listed, self._running())
        self._options.metrics.retained.set(len(desired.keys() - listed.keys()))
        devices, machine = convert.allocatable(allocatable), convert.machine(allocatable)
        await self._persist_and_publish(state.events(diff_steps(state.pods, desired)))
        if state.owns_streams:
            state.publish_allocatable(devices, machine)
        else:
            state.own_streams(devices, machine)

    async def _persist_and_publish(self, events: list[LedgerEvent]) -> None:
        # The first state is written even if it is empty: its position counts from then on.
        state, file = self._options.state, self._options.file
        if events or not state.owns_streams:
            self._log_disk_error(await asyncio.to_thread(file.save, state.stored_after(events)))
            state.publish_pods(events)

    async def _identify(self, response: v1.ListPodResourcesResponse) -> dict[str, PodAllocation]:
        """Return the listed pods by uid."""
        names = [(item.namespace, item.name) for item in response.pod_resources]
        await self._list_sandboxes(names)
        held = [exclusive_resources(convert.pod(item, "")) for item in response.pod_resources]
        uids = self._identities.identify(list(zip(names, held, strict=True)), time.monotonic())
        if self._identities.waiting:
            self._options.schedule.event(time.monotonic())
        pods = zip(uids, response.pod_resources, strict=True)
        return {uid: convert.pod(item, uid) for uid, item in pods if uid is not None}

    async def _list_sandboxes(self, names: list[PodName]) -> None:
        """Update the sandboxes. While the pods are those that are published, the runtime may be unavailable."""
        published = {(pod.namespace, pod.name) for pod in self._options.state.pods.values()}
        try:
            self._identities.replace(await list_sandboxes(self._options.bus))
        except NodeplaneError:
            if published != set(names) or not self._options.state.owns_streams:
                raise

    def _running(self) -> list[str]:
        known = self._options.state.pods.items()
        return [uid for uid, pod in known if self._identities.running(uid, (pod.namespace, pod.name))]

    def _report(self, current: bool, message: str) -> None:
        self._options.metrics.current.set(current)
        self._options.on_status(current, message)
        if message and message != self._logged_error:
            self._options.log.warning("%s", message)
        self._logged_error = message

    def _log_disk_error(self, message: str) -> None:
        """Log a streak of the same error once."""
        if message and message != self._logged_disk_error:
            self._options.log.warning("%s", message)
        self._logged_disk_error = message
