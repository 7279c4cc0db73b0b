"""Containers of every kind. Messages equal upstream's."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from protocols.kinds.check.causes import duplicate, forbidden, invalid, not_found, required, unsupported
from protocols.kinds.check.table import Causes, Struct, at_most, each, one_of, together
from protocols.kinds.check.values import (
    PROTOCOLS,
    backstep_faults,
    descending_faults,
    label,
    port_name,
    port_number,
)
from protocols.kinds.pods.spec.environment import variable_causes, variables_from
from protocols.kinds.pods.spec.resources import resize_policy_causes
from protocols.kinds.pods.spec.security import CONTAINER_SECURITY
from protocols.kube.meta import Object

Volumes = Mapping[str, Object]
"""Valid volumes of the pod by name."""


class Owner(NamedTuple):
    """Facts that all containers of a pod share."""

    volumes: Volumes
    restart_policy: str = ""
    host_network: bool = False
    host_users: bool = True


_port = Struct(name=port_name, hostPort=lambda path, value, causes: value and port_number(path, value, causes))
_protocol = one_of(*PROTOCOLS)


def _ports(path: str, values: list[Object], causes: Causes) -> None:
    names = set()
    for index, value in enumerate(values):
        where = f"{path}[{index}]"
        _port(where, value, causes)
        if name := value.get("name"):
            if name in names:
                causes.append(duplicate(f"{where}.name", name))
            names.add(name)
        if not value.get("containerPort"):
            causes.append(required(f"{where}.containerPort"))
        else:
            port_number(f"{where}.containerPort", value["containerPort"], causes)
        if protocol := value.get("protocol"):
            _protocol(f"{where}.protocol", protocol, causes)


_action = one_of("Restart", "RestartAllContainers", empty=True)
_codes = at_most(255)
MOST_RULES = 20


def _rule(path: str, value: Object, causes: Causes) -> None:
    _action(f"{path}.action", value.get("action") or "", causes)
    codes = value.get("exitCodes")
    if codes is None:
        causes.append(required(f"{path}.exitCodes", "must be specified"))
        return
    operator, values = codes.get("operator") or "", codes.get("values") or []
    if operator not in ("In", "NotIn"):
        causes.append(unsupported(f"{path}.exitCodes.operator", operator, ("In", "NotIn")))
    _codes(f"{path}.exitCodes.values", values, causes)


COMMON = Struct(
    "name image",
    name=label,
    imagePullPolicy=one_of("Always", "IfNotPresent", "Never"),
    terminationMessagePolicy=one_of("File", "FallbackToLogsOnError"),
    securityContext=CONTAINER_SECURITY,
    ports=_ports,
    envFrom=variables_from,
    restartPolicyRules=together(at_most(MOST_RULES), each(_rule)),
    restartPolicy=one_of("Always", "Never", "OnFailure", empty=True),
)


def container_words(path: str, container: Object, owner: Owner) -> Causes:
    """Validate the fields common to every kind of container."""
    causes: Causes = []
    COMMON(path, container, causes)
    if owner.host_users and (container.get("securityContext") or {}).get("procMount") == "Unmasked":
        text = "`hostUsers` must be false to use `Unmasked`"
        causes.append(invalid(f"{path}.securityContext.procMount", "Unmasked", text))
    if variables := container.get("env"):
        causes += variable_causes(f"{path}.env", variables, owner.volumes)
    if policies := container.get("resizePolicy"):
        causes += resize_policy_causes(f"{path}.resizePolicy", policies, owner.restart_policy)
    if container.get("restartPolicyRules") and container.get("restartPolicy") is None:
        text = "must specify restartPolicy when restart rules are used"
        causes.append(required(f"{path}.restartPolicy", text))
    if container.get("volumeMounts") or container.get("volumeDevices"):
        _Places(path, container, owner.volumes, causes).check()
    return causes


PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
RECURSIVE = ("Disabled", "Enabled", "IfPossible")
BLOCK = ("persistentVolumeClaim", "ephemeral")
NOT_BLOCK = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"


class _Places:
    """Mounts and block devices of one container, which share names and paths."""

    def __init__(self, path: str, container: Object, volumes: Volumes, causes: Causes) -> None:
        self._mounts: list[Object] = container.get("volumeMounts") or []
        self._devices: list[Object] = container.get("volumeDevices") or []
        self._security: Object = container.get("securityContext") or {}
        self._path, self._volumes, self._causes = path, volumes, causes

    def check(self) -> None:
        taken = {field: {device.get(field) for device in self._devices} for field in ("name", "devicePath")}
        seen = set[Any]()
        for index, mount in enumerate(self._mounts):
            path, place, name = f"{self._path}.volumeMounts[{index}]", mount.get("mountPath") or "", mount.get("name")
            self._named(path, name or "")
            if not place:
                self._causes.append(required(f"{path}.mountPath"))
            if place in seen:
                self._invalid(f"{path}.mountPath", place, "must be unique")
            seen.add(place)
            if place in taken["devicePath"]:
                self._invalid(f"{path}.mountPath", place, "must not already exist as a path in volumeDevices")
            if name in taken["name"]:
                self._invalid(f"{path}.name", name, "must not already exist in volumeDevices")
            if len(mount) > 2:
                self._options(f"{self._path}.volumeMounts", path, mount)
        self._check_devices(seen)

    def _named(self, path: str, name: str) -> None:
        if not name:
            self._causes.append(required(f"{path}.name"))
        if name not in self._volumes:
            self._causes.append(not_found(f"{path}.name", name))

    def _invalid(self, path: str, value: object, text: str) -> None:
        self._causes.append(invalid(path, value, text))

    def _options(self, path: str, indexed: str, mount: Object) -> None:
        """Validate optional fields of a mount. Upstream's paths of most lack the index."""
        for field in ("subPath", "subPathExpr"):
            for fault in descending_faults(mount.get(field) or ""):
                self._invalid(f"{path}.{field}", mount[field], fault)
        if mount.get("subPath") and mount.get("subPathExpr"):
            text = "subPathExpr and subPath are mutually exclusive"
            self._invalid(f"{indexed}.subPathExpr", mount["subPathExpr"], text)
        propagation = mount.get("mountPropagation")
        if propagation is not None and propagation not in PROPAGATIONS:
            self._causes.append(unsupported(f"{path}.mountPropagation", propagation, PROPAGATIONS))
        elif propagation == "Bidirectional" and not self._security.get("privileged"):
            text = "Bidirectional mount propagation is available only to privileged containers"
            self._causes.append(forbidden(f"{path}.mountPropagation", text))
        self._recursive(f"{path}.recursiveReadOnly", mount, propagation)

    def _recursive(self, path: str, mount: Object, propagation: str | None) -> None:
        wanted = mount.get("recursiveReadOnly")
        if wanted is None or wanted == "Disabled":
            return
        if wanted not in RECURSIVE:
            self._causes.append(unsupported(path, wanted, RECURSIVE))
            return
        if not mount.get("readOnly"):
            self._causes.append(forbidden(path, "may only be specified when readOnly is true"))
        if propagation not in (None, "None"):
            text = "may only be specified when mountPropagation is None or not specified"
            self._causes.append(forbidden(path, text))

    def _check_devices(self, mounted: set[Any]) -> None:
        names = {mount.get("name") for mount in self._mounts}
        seen_names, seen_paths = set[str](), set[str]()
        for index, device in enumerate(self._devices):
            path = f"{self._path}.volumeDevices[{index}]"
            name, place = device.get("name") or "", device.get("devicePath") or ""
            self._named(path, name)
            if name in self._volumes and not any(source in self._volumes[name] for source in BLOCK):
                self._invalid(f"{path}.name", name, NOT_BLOCK)
            if name in seen_names:
                self._invalid(f"{path}.name", name, "must be unique")
            if name in names:
                self._invalid(f"{path}.name", name, "must not already exist in volumeMounts")
            if not place:
                self._causes.append(required(f"{path}.devicePath"))
            if backstep_faults(place):
                self._invalid(f"{path}.devicePath", place, "can not contain backsteps ('..')")
            if place in seen_paths:
                self._invalid(f"{path}.devicePath", place, "must be unique")
            if place in mounted:
                self._invalid(f"{path}.devicePath", place, "must not already exist as a path in volumeMounts")
            seen_names.add(name)
            seen_paths.add(place)


def port_conflict_causes(path: str, containers: list[Object], host_network: bool) -> Causes:
    """Report host ports that two containers take; on the host's network, those unlike their containerPort.

    Ports of pods have their defaults here; ports of templates may lack them.
    """
    causes: Causes = []
    seen = set()
    for index, container in enumerate(containers):
        for place, port in enumerate(container.get("ports") or ()):
            number = port.get("hostPort")
            where = f"{path}[{index}].ports[{place}].hostPort"
            if host_network and number and number != port.get("containerPort"):
                causes.append(invalid(where, number, "must match `containerPort` when `hostNetwork` is true"))
            if not number:
                continue
            taken = f"{port.get('protocol') or 'TCP'}/{port.get('hostIP') or ''}/{number}"
            if taken in seen:
                causes.append(duplicate(where, taken))
            seen.add(taken)
    return causes
