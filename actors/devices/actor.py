"""devices: the device manager, between device plugins, DRA drivers and pods.

A process of its own, so that no device is allocated twice, whichever other process hangs or dies. Owns the device
inventory with its health, the ledger of allocations with its checkpoint, and the prepared claims of this node with
theirs.
On kill -9 nothing acknowledged is lost: the checkpoint is on disk before an admission is answered or published. Plugins
see their socket vanish and register again; until then allocations stay, and nothing new is allocated. Lost is the
record of calls (`nodeplane calls`), which is in memory alone; it survives a plugin that reconnects.
"""

import asyncio
from contextlib import suppress

from actors.devices.calls.log import CallLog
from actors.devices.dra.manager import DraManager, DraOptions
from actors.devices.dra.types import DraLimits
from actors.devices.manager import DeviceManager, DeviceManagerOptions
from actors.devices.model.errors import CheckpointNotWritten
from actors.devices.model.types import CallDeadlines
from actors.devices.plugins.registration import RegistrationOptions, RegistrationServer
from actors.devices.watcher.watcher import PluginWatcher, WatcherOptions
from protocols.actor import Context, run_actor
from protocols.bus import Call
from protocols.messages import calls as call_messages
from protocols.messages import devices as messages
from protocols.messages.calls import CallsReply, CallsRequest
from protocols.messages.devices import (
    AdmitPod,
    ChaosDevice,
    Empty,
    PrepareClaims,
    PreStart,
    ReconcilePods,
    ReleasePod,
    UnprepareClaims,
)
from protocols.process.proc import boot_id
from protocols.wire.plugins import DEVICE_PLUGIN, DRA_PLUGIN

MACHINE_POLL_S = 10.0


class Devices:
    """The actor: owns the device manager, the DRA manager and the watcher of plugins_registry/."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._calls = CallLog()
        self._manager = DeviceManager(
            DeviceManagerOptions(
                plugin_directory=context.layout.device_plugins,
                state_directory=context.layout.devices,
                bus=context.bus,
                registry=context.registry,
                log=context.log,
                limits=CallDeadlines(),
                kubelet_directory=context.layout.kubelet,
                alignment=context.settings.alignment,
                boot=boot_id(),
                calls=self._calls,
            )
        )
        self._registration = RegistrationServer(
            RegistrationOptions(context.layout.registration_socket, self._manager.plugins, context.log, self._calls)
        )

        self._dra = DraManager(self._dra_options())
        self._watcher = PluginWatcher(self._watcher_options())

    def _dra_options(self) -> DraOptions:
        return DraOptions(
            checkpoint=self._context.layout.dra_state,
            health_state=self._context.layout.dra_health,
            bus=self._context.bus,
            registry=self._context.registry,
            log=self._context.log,
            limits=DraLimits(),
            follow_health=self._context.settings.gate("ResourceHealthStatus"),
            publish_claims=self._manager.publish_claims,
            allocations=self._manager.allocations,
            report_problem=self._manager.report_problem,
            overrides=self._manager.dra_overrides,
            wait_written=self._manager.wait_written,
            calls=self._calls,
        )

    def _watcher_options(self) -> WatcherOptions:
        return WatcherOptions(
            directory=self._context.layout.plugins_registry,
            handlers={DEVICE_PLUGIN: self._manager.registry_handler, DRA_PLUGIN: self._dra.drivers},
            registry=self._context.registry,
            log=self._context.log,
            calls=self._calls,
        )

    async def start(self) -> None:
        self._context.spawn(self._manager.committer.run(), "committer")
        self._manager.start()
        serve = self._context.bus.serve
        serve(messages.ADMIT, AdmitPod, self._manager.admit)
        serve(messages.RELEASE, ReleasePod, self._manager.release)
        serve(messages.RECONCILE, ReconcilePods, self._reconcile)
        serve(messages.PREPARE_CLAIMS, PrepareClaims, self._dra.prepare)
        serve(messages.UNPREPARE_CLAIMS, UnprepareClaims, self._dra.unprepare)
        serve(messages.PRE_START, PreStart, self._manager.pre_start)
        serve(messages.CHAOS_DEVICE, ChaosDevice, self._chaos)
        serve(messages.HISTORY, Empty, self._manager.history)
        serve(call_messages.CALLS, CallsRequest, self._serve_calls)
        self._context.spawn(self._watch_machine(), "machine")
        await self._registration.start()
        self._context.spawn(self._watcher.run(), "plugins_registry")
        self._context.spawn(self._dra.run(), "claims")
        note = f"listening on {self._context.layout.registration_socket}"
        self._context.ready("; ".join((note, *self._manager.warnings[-1:], *self._dra.warnings)))

    async def _watch_machine(self) -> None:
        """Poll sysfs, since CPU hotplug raises no event. Every admission checks too, so this may be slow."""
        while True:
            await asyncio.sleep(MACHINE_POLL_S)
            self._manager.refresh_machine()

    async def _reconcile(self, pods: ReconcilePods, call: Call) -> Empty:
        self._dra.reconcile(set(pods.active))
        return await self._manager.reconcile(pods, call)

    async def _chaos(self, order: ChaosDevice, call: Call) -> Empty:
        return await (self._manager.chaos if order.resource else self._dra.chaos)(order, call)

    async def _serve_calls(self, request: CallsRequest, call: Call) -> CallsReply:
        return await self._calls.serve(request)

    async def stop(self) -> None:
        await self._registration.stop()
        await self._dra.close()
        await self._manager.plugins.close()
        with suppress(CheckpointNotWritten):  # it was logged; the next start reconciles
            await self._manager.committer.wait_written()


def main(argv: list[str] | None = None) -> None:
    run_actor("devices", Devices, argv)


if __name__ == "__main__":
    main()
