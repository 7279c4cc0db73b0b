"""What a node's processes take from the machine, replaced: its facts, cgroups, the launcher, peers of a socket."""

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from actors.frontdoor.serving import listener as listener_module
from actors.frontdoor.serving.listener import UNKNOWN_PEER, ListenerOptions, Peer
from actors.podworker.node import machine as machine_module
from actors.podworker.node.machine import instance_of
from actors.podworker.pods.volumes import memory
from actors.runtime import actor as runtime_actor
from actors.runtime.backends.launcher import LauncherHandle
from actors.runtime.cgroups import hierarchy
from protocols.kubeclient import kubeconfig
from protocols.kubeclient.client import ClientOptions
from protocols.lifecycle.node.status import MachineInfo
from protocols.process import namespaces, proc
from protocols.process.layout import Layout
from protocols.process.sockets import prepare_socket
from tests.simulation.world.patching import patch, substitute

if TYPE_CHECKING:
    from tests.simulation.calls.sockets import Sockets
    from tests.simulation.world.world import World

BOOT = "5ea1ed00-0000-4000-8000-000000000001"
TEMPORARY = ".new"


def replace_machine(world: "World", sockets: "Sockets", access: ClientOptions | None) -> None:
    """Replace it for this world; `access` is that of drivers. Import what runs in it first."""
    substitute(proc.boot_id, lambda: BOOT)
    substitute(hierarchy.find_hierarchy, lambda *_: None)
    substitute(namespaces.try_namespaces, lambda *_: False)
    substitute(machine_module.read_machine, _machine)
    substitute(memory.mount_shared, lambda *_: "")
    substitute(kubeconfig.client_options, lambda *_: nullcontext(access))
    substitute(listener_module.Listener, lambda options: PublicSocket(options, sockets))
    patch(runtime_actor, "_allow_descriptors", lambda: None)
    patch(LauncherHandle, "start", lambda self: None)
    patch(LauncherHandle, "close", lambda self: None)


def _machine(layout: Layout, node_ip: str) -> MachineInfo:
    return MachineInfo(
        address=node_ip or "192.0.2.10",
        cpus=8,
        memory_kib=16 << 20,
        storage_kib=64 << 20,
        architecture="amd64",
        kernel="6.1.0",
        os_image="Simulated",
        machine_id="simulated",
        boot_id=BOOT,
        instance=instance_of(layout.node_id),
    )


class PublicSocket:
    """Stands for the front door's Listener: the public socket leads to the private server, without a relay."""

    def __init__(self, options: ListenerOptions, sockets: "Sockets") -> None:
        self._options, self._sockets = options, sockets

    async def start(self) -> None:
        where = self._options.socket
        prepare_socket(where.public)
        server = self._sockets.find(where.private)
        if server is None:
            raise RuntimeError(f"nobody serves {where.private}")
        temporary = where.public.with_name(TEMPORARY)
        self._sockets.bind(temporary, server)
        temporary.rename(where.public)

    def stop_accepting(self) -> None:
        self._options.socket.public.unlink(missing_ok=True)

    def close(self) -> None:
        self.stop_accepting()

    def peer(self, grpc_peer: str) -> Peer:
        return UNKNOWN_PEER

    def __len__(self) -> int:
        return 0

    def __contains__(self, number: Any) -> bool:
        return False
