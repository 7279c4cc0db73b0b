"""The plane that a script is played on, through its bus and its API like any other client."""

import random
from pathlib import Path
from typing import Any

import yaml

from protocols.bus import Replica
from protocols.kinds import table as resources
from protocols.kinds.table import PODS, Resource
from protocols.kube.yaml_text import read_documents
from protocols.kubeclient.client import ApiClient, ClientOptions, find
from protocols.messages import devices
from protocols.messages.devices import DeviceHealth, PodAllocation, ResourceInventory
from protocols.messages.supervisor import ActorStatus
from protocols.process.files import read_bounded
from supervisor.chaos.script import ScriptInvalid
from supervisor.client.connection import Asking
from supervisor.client.devices import DeviceRow, rows_of

KINDS = {resource.kind: resource for resource in vars(resources).values() if isinstance(resource, Resource)}
DEFAULT = "default"


class ChaosStage:
    """A running plane, with the state that conditions need. Close it at the end."""

    def __init__(self, asking: Asking, directory: Path, dice: random.Random) -> None:
        """A script's file names are relative to `directory`."""
        self.asking, self.directory, self.dice = asking, directory, dice
        self.dead: dict[str, int] = {}
        """Pid of the last killed process by actor: the actor is live again only with another one."""
        self._api: ApiClient | None = None
        self._replicas: tuple[Any, ...] = ()

    async def close(self) -> None:
        if self._api:
            await self._api.close()

    async def actors(self) -> dict[str, ActorStatus]:
        return {actor.instance: actor for actor in (await self.asking.status()).actors}

    async def api(self) -> ApiClient:
        if self._api is None:
            layout = self.asking.layout
            server = (await self.asking.status()).endpoints["api"]
            cert, key = layout.client_cert("admin")
            self._api = ApiClient(ClientOptions(server=server, ca=layout.ca_cert, cert=cert, key=key, timeout=5.0))
            await self._api.start()
        return self._api

    async def pod(self, name: str) -> dict[str, Any]:
        """Return a pod of the default namespace; {} if there is none."""
        return await find(await self.api(), PODS, name, DEFAULT) or {}

    def devices(self) -> list[DeviceRow]:
        """Return the devices of plugins; [] while the device manager is not synced."""
        if not self._replicas:
            self._replicas = self._follow()
        *following, inventory, health, pods, _ = self._replicas
        if not all(follower.synced for follower in following):
            return []
        return rows_of(inventory.items, health.items, pods.items)

    def driver_devices(self) -> dict[str, DeviceHealth]:
        """Return devices of claims by DRIVER/POOL/DEVICE; {} while the device manager is not synced."""
        if not self._replicas:
            self._replicas = self._follow()
        *_, drivers = self._replicas
        return drivers.items if drivers.synced else {}

    def _follow(self) -> tuple[Any, ...]:
        inventory, health, pods = Replica[ResourceInventory](), Replica[DeviceHealth](), Replica[PodAllocation]()
        drivers = Replica[DeviceHealth]()
        follow, owner = self.asking.bus.follow, devices.OWNER
        return (
            follow(owner=owner, stream=devices.DEVICES, sink=inventory, type=ResourceInventory),
            follow(owner=owner, stream=devices.HEALTH, sink=health, type=DeviceHealth),
            follow(owner=owner, stream=devices.ALLOCATIONS, sink=pods, type=PodAllocation),
            follow(owner=owner, stream=devices.DRA_HEALTH, sink=drivers, type=DeviceHealth),
            inventory,
            health,
            pods,
            drivers,
        )


def documents(path: Path) -> list[tuple[Resource, dict[str, Any]]]:
    """Return the objects of a manifest. Raises ScriptInvalid if one cannot be applied."""
    try:
        objects = [document.value for document in read_documents(read_bounded(path)) if document.value]
    except OSError as error:
        raise ScriptInvalid(f"{path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ScriptInvalid(f"{path}: {' '.join(str(error).split())}") from None
    for step in objects:
        named = isinstance(step, dict) and step.get("kind") in KINDS and isinstance(step.get("metadata"), dict)
        if not named or not isinstance(step["metadata"].get("name"), str):
            raise ScriptInvalid(f"{path}: a document has no kind that is served here, or no metadata.name")
    return [(KINDS[step["kind"]], step) for step in objects]
