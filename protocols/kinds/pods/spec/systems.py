"""Fields of a pod that depend on its host's namespaces or on its operating system. Messages equal upstream's."""

import re
from collections.abc import Collection, Iterable, Iterator
from signal import Signals

from protocols.kinds.check.causes import Cause, forbidden, invalid, unsupported
from protocols.kinds.check.table import Causes, Struct, texts
from protocols.kinds.check.values import node_name
from protocols.kube.meta import Object
from protocols.kube.objects import at, items, text

SHARED = {"hostNetwork": "hostNetwork", "hostPID": "HostPID", "hostIPC": "HostIPC"}
"""Namespaces that a pod can share with its host, in the spelling of upstream's paths."""
OWN_USERS = "when `hostUsers` is false"
NOT_THERE = {"linux": "windows options cannot be set for a linux pod", "windows": "cannot be set for a windows pod"}
BOTH = ("appArmorProfile", "seLinuxOptions", "seccompProfile", "runAsUser", "runAsGroup")
FOREIGN: dict[str, tuple[Collection[str], ...]] = {
    "linux": ((), ("windowsOptions",), ("windowsOptions",)),
    "windows": (
        ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"),
        (*BOTH, "fsGroup", "fsGroupChangePolicy", "sysctls", "supplementalGroups", "supplementalGroupsPolicy",
         "seLinuxChangePolicy"),
        (*BOTH, "capabilities", "readOnlyRootFilesystem", "privileged", "allowPrivilegeEscalation", "procMount"),
    ),
}  # fmt: skip
"""Fields that a system does not have: of the spec, and of the security contexts of a pod and of a container."""


def every_container(path: str, spec: Object) -> Iterator[tuple[str, Object]]:
    """Yield the containers of every kind, each with its path."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(items(spec, field)):
            yield f"{path}.{field}[{index}]", container


def system_causes(path: str, spec: Object) -> Iterator[Cause]:
    """Check what depends on the users, the operating system and the host's processes."""
    if spec.get("hostUsers") is False:
        yield from (forbidden(f"{path}.{shown}", OWN_USERS) for field, shown in SHARED.items() if spec.get(field))
        devices = (place for place, container in every_container(path, spec) if container.get("volumeDevices"))
        yield from (forbidden(f"{place}.volumeDevices", OWN_USERS) for place in devices)
    if "os" in spec:
        system = text(spec, "os", "name")
        yield from (forbidden(place, NOT_THERE[system]) for place in _foreign(path, spec, system))
    yield from _stop_signals(path, spec)
    yield from _host_processes(path, spec)


def _foreign(path: str, spec: Object, system: str) -> Iterator[str]:
    """Yield the paths of the fields that a pod of this system cannot have."""
    of_spec, of_pod, of_container = FOREIGN.get(system, ((), (), ()))
    yield from (f"{path}.{field}" for field in of_spec if field in spec)
    owners = (
        (path, spec, of_pod),
        *((place, container, of_container) for place, container in every_container(path, spec)),
    )
    for place, owner, fields in owners:
        security = owner.get("securityContext") or {}
        yield from (f"{place}.securityContext.{field}" for field in fields if field in security)


REAL_TIME = (*(f"SIGRTMIN+{number}" for number in range(1, 16)), *(f"SIGRTMAX-{number}" for number in range(1, 15)))
STOP_SIGNALS = {"linux": sorted({*Signals.__members__, *REAL_TIME}), "windows": ["SIGKILL", "SIGTERM"]}


def _stop_signals(path: str, spec: Object) -> Iterator[Cause]:
    system = text(spec, "os", "name")
    for place, container in every_container(path, spec):
        if (signal := at(container, "lifecycle", "stopSignal")) is None:
            continue
        place = f"{place}.lifecycle.stopSignal"
        if not system:
            yield forbidden(place, "may not be set for containers with empty `spec.os.name`")
        elif signal not in STOP_SIGNALS.get(system, (signal,)):
            yield unsupported(place, signal, STOP_SIGNALS[system])


HOST_PROCESS = ("securityContext", "windowsOptions", "hostProcess")
NOT_THAT_OF_POD = "pod hostProcess value must be identical if both are specified, was {}"
ALL_OF_THEM = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
HOSTS_NETWORK = "hostNetwork must be true if pod contains any hostProcess containers"


def _host_processes(path: str, spec: Object) -> Iterator[Cause]:
    of_pod, kinds = at(spec, *HOST_PROCESS), set[bool]()
    for place, container in every_container(path, spec):
        own = at(container, *HOST_PROCESS)
        if None not in (own, of_pod) and own != of_pod:
            yield invalid(f"{place}.{'.'.join(HOST_PROCESS)}", own, NOT_THAT_OF_POD.format(str(of_pod).lower()))
        kinds.add(bool(of_pod if own is None else own))
    if len(kinds) > 1:
        yield invalid(path, "", ALL_OF_THEM)
    if True in kinds and not spec.get("hostNetwork"):
        yield invalid(f"{path}.hostNetwork", False, HOSTS_NETWORK)


SPEC_LIMIT, DOMAIN_LIMIT, USER_LIMIT = 64, 256, 104
CONTROL = re.compile(r"[\0-\x1f\x7f]")
NETBIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_LABEL = r"[a-zA-Z0-9](?:[-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?"
DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
NOT_IN_USERS = '"/\\:;|=,+*?<>@[]'


def _user_faults(name: str) -> Iterable[str]:
    """Yield what is wrong with `USER` or `DOMAIN\\USER`."""
    domain, slash, user = name.rpartition("\\")
    if not name:
        yield "runAsUserName cannot be an empty string"
    elif CONTROL.search(name):
        yield "runAsUserName cannot contain control characters"
    elif "\\" in domain:
        yield "runAsUserName cannot contain more than one backslash"
    else:
        if len(domain.encode()) >= DOMAIN_LIMIT:
            yield f"runAsUserName's Domain length must be under {DOMAIN_LIMIT} characters"
        if slash and not NETBIOS.fullmatch(domain) and not DOMAIN.fullmatch(domain):
            yield "runAsUserName's Domain doesn't match the NetBios nor the DNS format"
        yield from _own_name_faults(user)


def _own_name_faults(user: str) -> Iterable[str]:
    if not user:
        yield "runAsUserName's User cannot be empty"
    elif len(user.encode()) > USER_LIMIT:
        yield f"runAsUserName's User length must not be longer than {USER_LIMIT} characters"
    if user and not user.strip(". "):
        yield "runAsUserName's User cannot contain only periods or spaces"
    if any(letter in NOT_IN_USERS for letter in user):
        yield f"runAsUserName's User cannot contain the following characters: {NOT_IN_USERS}"


def _credentials(path: str, spec: str, causes: Causes) -> None:
    if not spec:
        causes.append(invalid(path, spec, "gmsaCredentialSpec cannot be an empty string"))
    elif len(spec.encode()) > SPEC_LIMIT << 10:
        causes.append(invalid(path, spec, f"gmsaCredentialSpec size must be under {SPEC_LIMIT} KiB"))


windows_options = Struct(
    gmsaCredentialSpecName=node_name,
    gmsaCredentialSpec=_credentials,
    runAsUserName=texts(_user_faults, empty=True),
)
