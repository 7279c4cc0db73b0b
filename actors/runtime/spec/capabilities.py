"""Linux capabilities by name. Pure."""

from collections.abc import Iterable

from actors.runtime.model.errors import InvalidRequest
from protocols.wire import cri_pb2 as pb

# fmt: off
NAMES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL",
    "SETGID", "SETUID", "SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST",
    "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO",
    "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE",
    "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM",
    "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE",
)
# fmt: on
"""In the kernel's order: the index is the number."""
ALL = frozenset(range(len(NAMES)))


def dropped(context: pb.LinuxContainerSecurityContext) -> list[int]:
    """What the container may not have; it has everything else of the runtime's own. Raises InvalidRequest."""
    if context.privileged:
        return []
    return sorted(_numbers(context.capabilities.drop_capabilities) - _numbers(context.capabilities.add_capabilities))


def _numbers(names: Iterable[str]) -> frozenset[int]:
    found: set[int] = set()
    for name in names:
        plain = name.upper().removeprefix("CAP_")
        if plain != "ALL" and plain not in NAMES:
            raise InvalidRequest(f'there is no capability "{name}"')
        found |= ALL if plain == "ALL" else {NAMES.index(plain)}
    return frozenset(found)
