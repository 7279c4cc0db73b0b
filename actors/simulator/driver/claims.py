"""Prepare claims: read the allocation of a claim, and write the CDI file that brings its devices into a container."""

import asyncio
import json
from pathlib import Path

import msgspec

from actors.simulator.driver.options import DriverOptions
from protocols.errors import NodeplaneError
from protocols.kinds.table import RESOURCECLAIMS
from protocols.kube.meta import Object
from protocols.kubeclient.client import ApiClient, find
from protocols.process.files import write_atomic

CDI_VERSION = "0.5.0"


class ClaimRejected(NodeplaneError, http=409, grpc="FAILED_PRECONDITION"):
    """Raised when a claim cannot be prepared: not allocated, replaced, or with a device that we lack."""


class Prepared(msgspec.Struct, frozen=True):
    """One device of a claim, as NodePrepareResources returns it."""

    device: str
    request: str
    cdi: str
    share_id: str = ""


class Claims:
    """Prepare and unprepare claims. The CDI files are the only state, so a restarted driver goes on with them."""

    def __init__(self, options: DriverOptions, client: ApiClient) -> None:
        self._options = options
        self._client = client
        self._devices = {device.name: device for device in options.all_devices()}

    async def prepare(self, namespace: str, name: str, uid: str) -> list[Prepared]:
        """Prepare a claim; idempotent. Raises ClaimRejected or ApiError."""
        claim = await find(self._client, RESOURCECLAIMS, name, namespace)
        if claim is None:
            raise ClaimRejected(f"ResourceClaim {namespace}/{name} does not exist")
        if claim["metadata"].get("uid") != uid:
            raise ClaimRejected(
                f"ResourceClaim {namespace}/{name} is another one now, with uid {claim['metadata'].get('uid')}"
            )
        allocation = (claim.get("status") or {}).get("allocation")
        if allocation is None:
            raise ClaimRejected(f"ResourceClaim {namespace}/{name} is not allocated")
        mine = [
            item for item in allocation["devices"].get("results") or () if item.get("driver") == self._options.driver
        ]
        spec = self._cdi(uid, mine, allocation["devices"].get("config") or [])
        await asyncio.to_thread(self._write, uid, spec)
        return [self._prepared(uid, item) for item in mine]

    def unprepare(self, uid: str) -> None:
        """Remove the CDI file of a claim; one that was never prepared is no error."""
        self._file(uid).unlink(missing_ok=True)

    def _prepared(self, uid: str, item: Object) -> Prepared:
        request = str(item["request"]).partition("/")[0]
        cdi = f"{self._kind}={_cdi_name(uid, item)}"
        return Prepared(str(item["device"]), request, cdi, str(item.get("shareID") or ""))

    def _cdi(self, uid: str, mine: list[Object], config: list[Object]) -> Object:
        edits: dict[str, dict[str, None]] = {}  # two requests may have one device, with adminAccess
        for item in mine:
            edits.setdefault(_cdi_name(uid, item), {}).update(dict.fromkeys(self._variables(item, config)))
        devices = [{"name": name, "containerEdits": {"env": list(variables)}} for name, variables in edits.items()]
        return {"cdiVersion": CDI_VERSION, "kind": self._kind, "devices": devices, "containerEdits": {}}

    def _variables(self, item: Object, config: list[Object]) -> list[str]:
        """Return the environment of a device; a real driver adds device nodes and mounts."""
        device = self._devices.get(str(item["device"]))
        if device is None or item.get("pool") != self._options.node:
            raise ClaimRejected(f"this driver has no device {item.get('device')} in a pool {item.get('pool')}")
        variables = [f"{self._options.variable(device.name)}={self._options.uuid(device)}"]
        if memory := (item.get("consumedCapacity") or {}).get("memory"):
            variables.append(f"{self._options.variable(f'{device.name}-share-{_short(item)}')}={memory}")
        if (parameters := _parameters(self._options.driver, str(item["request"]), config)) is not None:
            variables.append(f"{self._options.variable('config')}={json.dumps(parameters, sort_keys=True)}")
        return variables

    def _write(self, uid: str, spec: Object) -> None:
        self._options.cdi.mkdir(parents=True, exist_ok=True)
        write_atomic(self._file(uid), json.dumps(spec, indent=2).encode() + b"\n", mode=0o644)

    def _file(self, uid: str) -> Path:
        return self._options.cdi / f"{self._options.driver}-{uid}.json"

    @property
    def _kind(self) -> str:
        return f"{self._options.driver}/device"


def _cdi_name(uid: str, item: Object) -> str:
    """Return the name of a device in the claim's CDI file; each share of a device has its own."""
    return f"{uid}-{item['device']}" + (f"-{_short(item)}" if item.get("shareID") else "")


def _short(item: Object) -> str:
    return str(item.get("shareID") or "")[:8]


def _parameters(driver: str, request: str, config: list[Object]) -> Object | None:
    """Return the opaque parameters for a request; those of the claim override those of its class."""
    names = {request, request.partition("/")[0]}
    mine = [
        item
        for source in ("FromClass", "FromClaim")
        for item in config
        if item.get("source") == source and (not item.get("requests") or names & set(item["requests"]))
    ]
    parameters = [item["opaque"]["parameters"] for item in mine if (item.get("opaque") or {}).get("driver") == driver]
    return parameters[-1] if parameters else None
