"""The flags of `up` about CPUs, memory and topology, named as kubelet's, become settings."""

from collections.abc import Iterable

import msgspec

from protocols.alignment import Alignment, check_alignment
from supervisor.errors import Usage


class AlignmentFlags(msgspec.Struct, frozen=True, kw_only=True):
    """As text, the way they are given."""

    cpu_manager_policy: str = "none"
    cpu_manager_policy_options: str = ""
    memory_manager_policy: str = "None"
    topology_manager_policy: str = "none"
    topology_manager_scope: str = "container"
    topology_manager_policy_options: str = ""
    reserved_cpus: str = ""
    reserved_memory: tuple[str, ...] = ()
    kube_reserved: str = ""
    system_reserved: str = ""
    sysfs_root: str = "/"


def alignment(options: AlignmentFlags) -> Alignment:
    """Raises Usage or SettingsInvalid."""
    return check_alignment(
        Alignment(
            cpuManagerPolicy=options.cpu_manager_policy,
            cpuManagerPolicyOptions=pairs(options.cpu_manager_policy_options, "--cpu-manager-policy-options"),
            memoryManagerPolicy=options.memory_manager_policy,
            topologyManagerPolicy=options.topology_manager_policy,
            topologyManagerScope=options.topology_manager_scope,
            topologyManagerPolicyOptions=pairs(
                options.topology_manager_policy_options, "--topology-manager-policy-options"
            ),
            reservedSystemCPUs=options.reserved_cpus,
            reservedMemory=reserved_memory(options.reserved_memory),
            kubeReserved=pairs(options.kube_reserved, "--kube-reserved"),
            systemReserved=pairs(options.system_reserved, "--system-reserved"),
            sysfsRoot=options.sysfs_root,
        )
    )


def pairs(text: str, flag: str) -> dict[str, str]:
    """`name=value,other=value`."""
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or not name or not value or name in found:
            raise Usage(f"{flag} {part!r} is no NAME=VALUE, or names something twice")
        found[name] = value
    return found


def reserved_memory(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    """`NODE:memory=SIZE,hugepages-SIZE=SIZE` each; several in one text are parted by `;`."""
    found: dict[str, dict[str, str]] = {}
    for text in (part for given in texts for part in given.split(";") if part):
        node, colon, sizes = text.partition(":")
        if not colon or node in found:
            raise Usage(f"--reserved-memory {text!r} is no NODE:TYPE=SIZE,..., or names a node twice")
        found[node] = pairs(sizes, "--reserved-memory")
    return found
