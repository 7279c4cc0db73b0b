"""Sysctls that pods may set: upstream's safe ones, and the unsafe ones that the node's administrator allows."""

import re

import msgspec

from protocols.errors import SettingsInvalid

SAFE = {
    "kernel.shm_rmid_forced": (0, 0),
    "net.ipv4.ip_local_port_range": (0, 0),
    "net.ipv4.tcp_syncookies": (0, 0),
    "net.ipv4.ping_group_range": (0, 0),
    "net.ipv4.ip_unprivileged_port_start": (0, 0),
    "net.ipv4.ip_local_reserved_ports": (3, 16),
    "net.ipv4.tcp_keepalive_time": (4, 5),
    "net.ipv4.tcp_fin_timeout": (4, 6),
    "net.ipv4.tcp_keepalive_intvl": (4, 5),
    "net.ipv4.tcp_keepalive_probes": (4, 5),
    "net.ipv4.tcp_rmem": (0, 0),
    "net.ipv4.tcp_wmem": (0, 0),
}
"""Kubernetes 1.36's, with the kernel version since which a sysctl belongs to a namespace."""
IPC, NET = "ipc", "net"
PREFIXES = {"kernel.shm": IPC, "kernel.msg": IPC, "fs.mqueue.": IPC, "net.": NET}


def normalized(name: str) -> str:
    """Return the name with dots as separators: `net/ipv4/conf/eno2.100/x` is `net.ipv4.conf.eno2/100.x`."""
    separator = re.search(r"[./]", name)
    return name if separator is None or separator[0] == "." else name.translate(str.maketrans("./", "/."))


def namespace_of(name: str) -> str:
    """Return the kind of namespace that the sysctl, or every sysctl of the prefix, belongs to; empty if none."""
    if name == "kernel.sem":
        return IPC
    return next((kind for prefix, kind in PREFIXES.items() if name.startswith(prefix)), "")


def unsafe_sysctls(text: str) -> tuple[str, ...]:
    """Parse a list of names and of prefixes that end with `*`. Raises SettingsInvalid."""
    patterns = tuple(normalized(part.strip()) for part in text.split(",") if part.strip())
    for pattern in patterns:
        prefix = pattern.removesuffix("*")
        if "*" in prefix or not namespace_of(prefix):
            known = ", ".join(f"{start}*" for start in PREFIXES)
            raise SettingsInvalid(f"{pattern!r} is no sysctl of a namespace; use kernel.sem, or names of {known}")
    return patterns


class SysctlAllowlist(msgspec.Struct, frozen=True):
    """Sysctls that a node's pods may set: exact names, and prefixes for entries that end with `*`."""

    names: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    def fault(self, name: str, host_network: bool, host_ipc: bool) -> str:
        """Return why a pod may not set this sysctl; empty if it may."""
        plain = normalized(name)
        kind = namespace_of(plain)
        if kind == IPC and host_ipc:
            return f'"{name}" not allowed with host ipc enabled'
        if kind == NET and host_network:
            return f'"{name}" not allowed with host net enabled'
        return "" if plain in self.names or plain.startswith(self.prefixes) else f'"{name}" not allowlisted'


def allowlist(kernel: str, unsafe: tuple[str, ...] = ()) -> SysctlAllowlist:
    """Return what a kernel of this version, such as `6.1.0-18-amd64`, lets pods set."""
    match = re.match(r"(\d+)\.(\d+)", kernel)
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    names = {name for name, since in SAFE.items() if version >= since}
    names |= {name for name in unsafe if not name.endswith("*")}
    return SysctlAllowlist(frozenset(names), tuple(name[:-1] for name in unsafe if name.endswith("*")))
