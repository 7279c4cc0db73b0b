"""Sysctls of a pod: those of its IPC namespace are set there, all others are rejected. Without root all are ignored."""

from collections.abc import Mapping

from actors.runtime.model.errors import InvalidRequest
from actors.runtime.spec.isolation import namespaces_allowed

_NAMES = ("msgmax", "msgmnb", "msgmni", "sem", "shmall", "shmmax", "shmmni", "shm_rmid_forced")
_IPC = frozenset(f"kernel.{name}" for name in _NAMES)
_MQUEUE = "fs.mqueue."


def check_sysctls(sysctls: Mapping[str, str]) -> None:
    """Raises InvalidRequest for a sysctl that is not the pod's own."""
    if not namespaces_allowed():
        return
    for name in sorted(sysctls):
        plain = _dotted(name)
        if plain.startswith("net."):
            raise InvalidRequest(f'sysctl "{name}" is of the network, which pods of the embedded runtime share')
        if plain not in _IPC and not (plain.startswith(_MQUEUE) and plain.count(".") == 2):
            raise InvalidRequest(f'sysctl "{name}" is not in a separate kernel namespace')


def kernel_paths(sysctls: Mapping[str, str]) -> dict[str, str]:
    """Return the values to set, by their path below /proc/sys."""
    if not namespaces_allowed():
        return {}
    return {_dotted(name).replace(".", "/"): value for name, value in sysctls.items()}


def _dotted(name: str) -> str:
    """Normalize `kernel/shm_rmid_forced`; the names of IPC have no dot in a part."""
    return name.replace("/", ".")
