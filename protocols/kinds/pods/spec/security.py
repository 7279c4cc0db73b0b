"""Security contexts of pods and containers. Messages equal upstream's."""

import re
from typing import Any

from protocols.kinds.check.causes import duplicate, invalid, required, unsupported
from protocols.kinds.check.table import Causes, Check, Struct, each, one_of
from protocols.kinds.check.values import descending_faults, identity, longest
from protocols.kinds.pods.spec.systems import windows_options
from protocols.kube.meta import Object

PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
SYSCTL_MAX = 253
SYSCTL_TEXT = (
    "must have at most 253 characters and match regex "
    r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
)


_path_length = longest(4095)


def _profile(field: str, kind: str) -> Check:
    """Return the check of a seccomp or AppArmor profile."""

    def check(path: str, value: Object, causes: Causes) -> None:
        chosen, local = value.get("type") or "", value.get("localhostProfile")
        if not chosen:
            causes.append(required(f"{path}.type", f"type is required when {field} is set"))
        elif chosen not in PROFILES:
            causes.append(unsupported(f"{path}.type", chosen, PROFILES))
        where = f"{path}.localhostProfile"
        if chosen != "Localhost":
            if local is not None:
                causes.append(invalid(where, local, f"can only be set when {kind} type is Localhost"))
        elif local is None or (field == "appArmorProfile" and not local.strip()):
            causes.append(required(where, f"must be set when {kind} type is Localhost"))
        elif field == "seccompProfile":
            causes.extend(invalid(where, local, fault) for fault in descending_faults(local))
        elif local != local.strip():
            causes.append(invalid(where, local, "must not be padded with whitespace"))
        else:
            _path_length(where, local, causes)

    return check


seccomp, apparmor = _profile("seccompProfile", "seccomp"), _profile("appArmorProfile", "AppArmor")


def _escalation(path: str, value: Object, causes: Causes) -> None:
    if value.get("allowPrivilegeEscalation") is not False:
        return
    if value.get("privileged"):
        text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        causes.append(invalid(path, value, text))
    if "CAP_SYS_ADMIN" in ((value.get("capabilities") or {}).get("add") or ()):
        text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        causes.append(invalid(path, value, text))


CONTAINER_SECURITY = Struct(
    also=_escalation,
    runAsUser=identity,
    runAsGroup=identity,
    procMount=one_of("Default", "Unmasked", empty=True),
    seccompProfile=seccomp,
    appArmorProfile=apparmor,
    windowsOptions=windows_options,
)


def _sysctls(path: str, values: list[Object], causes: Causes) -> None:
    seen = set()
    for index, value in enumerate(values):
        where, name = f"{path}[{index}].name", value.get("name") or ""
        if not name:
            causes.append(required(where))
        elif len(name) > SYSCTL_MAX or not SYSCTL.fullmatch(name):
            causes.append(invalid(where, name, SYSCTL_TEXT))
        elif name in seen:
            causes.append(duplicate(where, name))
        seen.add(name)


def _dotted(name: str) -> str:
    """Return the name with dots between its parts: a name may have slashes, in which dots are plain characters."""
    if "/" not in name or ("." in name and name.index(".") < name.index("/")):
        return name
    return name.translate(str.maketrans("./", "/."))


POD_SECURITY = Struct(
    fsGroup=identity,
    runAsUser=identity,
    runAsGroup=identity,
    supplementalGroups=each(identity),
    fsGroupChangePolicy=one_of("Always", "OnRootMismatch", empty=True),
    seLinuxChangePolicy=one_of("MountOption", "Recursive", empty=True),
    supplementalGroupsPolicy=one_of("Merge", "Strict", empty=True),
    sysctls=_sysctls,
    seccompProfile=seccomp,
    appArmorProfile=apparmor,
    windowsOptions=windows_options,
)
NAMESPACED = {
    "hostIPC": ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."),
    "hostNetwork": ("net.",),
}
"""Prefixes of the sysctls that belong to a namespace of the host."""


def host_sysctl_causes(path: str, spec: Object) -> Causes:
    """Forbid sysctls of namespaces that the pod shares with the host."""
    causes: Causes = []
    security: Any = spec.get("securityContext") or {}
    for index, sysctl in enumerate(security.get("sysctls") or ()):
        name: str = sysctl.get("name") or ""
        for field, prefixes in NAMESPACED.items():
            if spec.get(field) and _dotted(name).startswith(prefixes):
                text = f"may not be specified when '{field}' is true"
                causes.append(invalid(f"{path}[{index}].name", name, text))
    return causes
