"""kubelet's `cpu_manager_state`, with its checksum, so that a kubelet can take the node over. Pure."""

import msgspec

from actors.devices.cpu.pool import Holdings
from actors.devices.cpu.topology import Cpus
from actors.devices.model.errors import StateFileCorrupt
from actors.devices.model.go_checksum import GoField, checksum_of, mapping, struct
from protocols.errors import SettingsInvalid
from protocols.node.cpulist import format_list, parse_list
from protocols.process.files import UNREADABLE

NAME = "cpu_manager_state"


class CpuState(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The content of the file: CPU lists such as `0-3,8`, those of containers by pod uid and name."""

    policy_name: str
    default_cpu_set: str
    checksum: int
    entries: dict[str, dict[str, str]] = {}


def encode(policy: str, shared: Cpus, holdings: Holdings) -> bytes:
    """Return the file. `shared`: CPUs of all containers without exclusive ones."""
    entries = {
        uid: {name: format_list(cpus) for name, cpus in sorted(held.items())} for uid, held in sorted(holdings.items())
    }
    state = CpuState(policy, format_list(shared), 0, entries)
    fields: dict[str, object] = {"policyName": policy, "defaultCpuSet": state.default_cpu_set}
    return msgspec.json.encode(fields | ({"entries": entries} if entries else {}) | {"checksum": checksum(state)})


def decode(raw: bytes) -> tuple[str, Holdings]:
    """Return the policy, and the CPUs by pod and container. Raises StateFileCorrupt."""
    try:
        state = msgspec.json.decode(raw, type=CpuState)
        holdings = {uid: {name: parse_list(cpus) for name, cpus in held.items()} for uid, held in state.entries.items()}
    except (*UNREADABLE, SettingsInvalid) as error:
        raise StateFileCorrupt(str(error)) from None
    if state.checksum not in (0, checksum(state)):  # 0: as kubelet takes it, a file without a checksum of its own
        raise StateFileCorrupt("its checksum does not match")
    return state.policy_name, holdings


def checksum(state: CpuState) -> int:
    """Return kubelet's checksum of the state, over Go's text form of it."""
    entries = mapping({uid: mapping(held) for uid, held in state.entries.items()})
    fields = (
        GoField("PolicyName", "string", state.policy_name),
        GoField("DefaultCPUSet", "string", state.default_cpu_set),
        GoField("Entries", "map[string]map[string]string", entries),
        GoField("Checksum", "checksum.Checksum", "0"),
    )
    return checksum_of(f"(*state.CPUManagerCheckpoint){struct(fields)}")
