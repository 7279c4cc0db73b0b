"""Messages of `devices`: admission of pods to devices as RPC; inventory, allocations and health as streams."""

import msgspec

OWNER = "devices"

DEVICES = "devices"
"""State stream, key = resource name, value = ResourceInventory."""

ALLOCATIONS = "allocations"
"""State stream, key = pod uid, value = PodAllocation; mark = ledger sequence, durable over restarts. Every event
counts: a release is published before any allocation that uses what it freed."""

ALLOCATABLE = "allocatable"
"""State stream, key = `RESOURCE ID` (one space), value = Device (healthy and connected ones only).
Events up to one that carries a mark (a plain count, not durable) belong together."""

HEALTH = "health"
"""State stream, key = `RESOURCE ID`, value = DeviceHealth, also of devices that vanished while allocated."""

MACHINE = "machine"
"""State stream, key = NODE, value = Machine: CPUs and memory of GetAllocatableResources."""

PLACEMENT = "placement"
"""State stream, key = NODE, value = Placement, for the Node object and for shared containers."""

NODE = "node"

DRA_HEALTH = "dra_health"
"""State stream, key = `DRIVER/POOL/DEVICE`, value = DeviceHealth with that text as its id and an empty resource: what
DRA drivers say of the devices that prepared claims on this node have. Unknown is also what no driver speaks of."""

DRA_DRIVERS = "dra_drivers"
"""State stream, key = driver name, value = DraDriver: drivers registered with this incarnation of the manager."""

PREPARE_CLAIMS = "prepare_claims"
"""RPC PrepareClaims -> PreparedClaims, idempotent per pod. Raises FAILED_PRECONDITION with upstream's text."""

UNPREPARE_CLAIMS = "unprepare_claims"
"""RPC UnprepareClaims -> Empty, idempotent: the pod's containers are dead; what no other pod uses is given back."""

ADMIT = "admit"
"""RPC AdmitPod -> AdmittedPod, idempotent per uid. Refusal: code FAILED_PRECONDITION, details.reason =
UnexpectedAdmissionError, TopologyAffinityError or SMTAlignmentError."""

RELEASE = "release"
"""RPC ReleasePod -> Empty, idempotent: the pod's containers are dead, its devices are free again."""

RECONCILE = "reconcile"
"""RPC ReconcilePods -> Empty: release every pod that is not named. Sent only once pod sources are synced."""

PRE_START = "pre_start"
"""RPC PreStart -> Empty: PreStartContainer of the plugins that asked for it."""

CHAOS_DEVICE = "chaos_device"
"""RPC ChaosDevice -> Empty: override what the plugin reports of one device; an empty health ends the override."""

HISTORY = "history"
"""RPC Empty -> LedgerHistory: the newest events of `allocations`, also of before a restart, for clients that resume."""

NOTICES = "notices"
"""State stream, key = a number of this incarnation, value = NodeNotice: its newest few, for events of the node."""

PLUGINS = "plugins"
"""State stream, key = `RESOURCE NUMBER`, value = PluginView; of a resource without a connection, its last one."""

PLUGIN_SILENT, PLUGIN_SERVES, PLUGIN_REPLACED, PLUGIN_GONE = "silent", "serves", "replaced", "gone"

CHECKPOINT = "DeviceCheckpoint"
"""Reason of notices about a checkpoint that was not as it was left: allocations may be gone, so pods ask again."""

DEVICES_ANNOTATION = "nodeplane.io/devices"
"""Annotation of a container in the runtime: JSON, ids by resource. The last source when every checkpoint is lost."""

MARK_SHIFT = 22
"""Below this bit a mark counts events, above it stands its lineage: the time its ledger began."""

MARKS_BEGAN_MS = 1_577_836_800_000
"""2020, from which the time in a mark is counted."""

HEALTHY, UNHEALTHY, UNKNOWN = "Healthy", "Unhealthy", "Unknown"


class Empty(msgspec.Struct, frozen=True):
    """Request or answer without content."""


class NodeNotice(msgspec.Struct, frozen=True):
    """An event of the node."""

    kind: str
    """Normal or Warning."""
    reason: str
    message: str


class PluginView(msgspec.Struct, frozen=True):
    """One connection to a device plugin."""

    resource: str
    socket: str
    """Its path, or its name in device-plugins/."""
    state: str = PLUGIN_SILENT
    """silent (no list yet), serves, replaced (by a newer one; still connected) or gone."""
    since_ns: int = 0
    why: str = ""
    """Reason for its end."""
    pre_start: bool = False
    preferred: bool = False


class Device(msgspec.Struct, frozen=True):
    """One device of a plugin, as the plugin last listed it."""

    resource: str
    id: str
    numa: tuple[int, ...] = ()
    """NUMA nodes, empty = no topology."""
    health: str = HEALTHY


class ResourceInventory(msgspec.Struct, frozen=True):
    """capacity = number of devices, allocatable = number of Healthy ones while connected, else 0."""

    resource: str
    connected: bool
    devices: tuple[Device, ...] = ()


class AllocatedDevice(msgspec.Struct, frozen=True):
    """A plugin's device that a container holds, with its topology at the time of the allocation."""

    resource: str
    id: str
    numa: tuple[int, ...] = ()


class AllocatedMemory(msgspec.Struct, frozen=True):
    """`type`: memory or hugepages-SIZE; `size` in bytes; one block may stand on several NUMA nodes."""

    type: str
    size: int
    numa: tuple[int, ...] = ()


class ClaimDevice(msgspec.Struct, frozen=True):
    """One device of a prepared claim, named as its ResourceSlice names it."""

    driver: str
    pool: str
    device: str
    cdi_devices: tuple[str, ...] = ()
    share_id: str = ""
    requests: tuple[str, ...] = ()
    """Requests of the claim it was given for, without the part after a slash; empty = all."""

    @property
    def id(self) -> str:
        """DRIVER/POOL/DEVICE, as in the stream `dra_health`."""
        return f"{self.driver}/{self.pool}/{self.device}"


class PreparedClaim(msgspec.Struct, frozen=True):
    """A ResourceClaim that is prepared on this node; of a container, only the devices of the requests it names."""

    namespace: str
    name: str
    uid: str
    devices: tuple[ClaimDevice, ...] = ()
    names: tuple[str, ...] = ()
    """References in the container's resources.claims: NAME or NAME/REQUEST, NAME as in the pod's resourceClaims;
    of a claim no container names, NAME; empty for the claim behind extended resources. Shown as `claim:...` in
    allocatedResourcesStatus."""
    resources: dict[str, str] = {}
    """Of the claim behind extended resources: the resource by request of the claim."""


class Machine(msgspec.Struct, frozen=True):
    """Allocatable, whether allocated or not. Changes when CPUs go offline or come back."""

    cpus: tuple[int, ...] = ()
    """Online and not reserved, sorted; empty while the CPU manager's policy is none."""
    memory: tuple[AllocatedMemory, ...] = ()
    """By NUMA node, then type, one node each; empty while the memory manager's policy is None."""


class Placement(msgspec.Struct, frozen=True):
    """The machine as the Node object shows it, and the CPUs of everybody who has none of his own."""

    online: str
    """CPU list."""
    memory: int
    """Bytes."""
    hugepages: dict[str, int] = {}
    """Bytes by resource name, `hugepages-2Mi`."""
    reserved: dict[str, int] = {}
    """Kept from pods: `cpu` in thousandths, everything else in bytes."""
    shared: str = ""
    """CPU list of the shared pool, `0,2-3`; empty = the CPU manager's policy is none, nobody is pinned."""
    ledger_ns: int = 0
    """Unix time at which the ledger began; 0 = unknown. It knows every resource that plugins registered since."""


class ContainerAllocation(msgspec.Struct, frozen=True):
    """All that one container holds: devices, CPUs, memory, prepared claims."""

    name: str
    kind: str = "app"
    """app, init or sidecar (restartable init); List shows app and sidecar."""
    devices: tuple[AllocatedDevice, ...] = ()
    """Sorted by resource, then id."""
    cpus: tuple[int, ...] = ()
    """Exclusive CPUs, sorted; empty = the shared pool."""
    memory: tuple[AllocatedMemory, ...] = ()
    claims: tuple[PreparedClaim, ...] = ()


class PodAllocation(msgspec.Struct, frozen=True):
    """All that one pod holds; admission stores the whole of it or nothing."""

    uid: str
    namespace: str
    name: str
    containers: tuple[ContainerAllocation, ...] = ()
    """In spec order, also those without devices."""
    claims: tuple[PreparedClaim, ...] = ()
    """Prepared for the pod, named by no container of it."""
    cpus: tuple[int, ...] = ()
    """Exclusive to the pod as a whole, sorted; its containers' own ones may be among them."""
    memory: tuple[AllocatedMemory, ...] = ()
    """Exclusive to the pod as a whole."""


class DeviceHealth(msgspec.Struct, frozen=True):
    """The latest health of one device as its plugin or driver gave it; `changed_ns` since the epoch."""

    resource: str
    id: str
    health: str
    message: str = ""
    changed_ns: int = 0


class DraDriver(msgspec.Struct, frozen=True):
    """A DRA driver that is registered with the manager."""

    name: str
    connected: bool
    """Some instance of it answers."""
    version: str = ""
    """The service in use: v1.DRAPlugin or v1beta1.DRAPlugin."""
    health: str = ""
    """Its health service in use; empty = it has none."""
    endpoints: tuple[str, ...] = ()


class ContainerRequest(msgspec.Struct, frozen=True):
    """Resources that one container requests of its node."""

    name: str
    kind: str = "app"
    resources: dict[str, int] = {}
    """Extended resources of the container's limits, count each."""
    held: dict[str, tuple[str, ...]] = {}
    """Ids by resource that its running container was started with, as the runtime reports; used only when the
    ledger has lost the pod."""
    cpu: int = 0
    """CPU request in thousandths."""
    memory: dict[str, int] = {}
    """Bytes asked for of `memory` and of each `hugepages-SIZE`."""


class AdmitPod(msgspec.Struct, frozen=True):
    """Request to allocate everything the pod's containers request, or nothing."""

    uid: str
    namespace: str
    name: str
    containers: tuple[ContainerRequest, ...]
    guaranteed: bool = False
    """QoS class Guaranteed: only such pods get CPUs and memory of their own."""
    running: bool = False
    """The pod already has running containers: it is recovered, not newly admitted."""
    present: bool = False
    """The pod has a live sandbox: neither the plane nor the machine was shut down since it was admitted."""


class GrantedMount(msgspec.Struct, frozen=True):
    """A mount that a plugin's Allocate response adds to the container."""

    container_path: str
    host_path: str
    read_only: bool = False


class GrantedDevice(msgspec.Struct, frozen=True):
    """A device node that a plugin's Allocate response adds to the container; `permissions` as in CRI, e.g. `rwm`."""

    container_path: str
    host_path: str
    permissions: str = ""


class ContainerGrant(msgspec.Struct, frozen=True):
    """Settings of the container that plugins request, merged over its resources in name order; the first one wins."""

    envs: dict[str, str] = {}
    mounts: tuple[GrantedMount, ...] = ()
    devices: tuple[GrantedDevice, ...] = ()
    annotations: dict[str, str] = {}
    cdi_devices: tuple[str, ...] = ()
    held: dict[str, tuple[str, ...]] = {}
    """Ids by resource, stored with the container for the case that all checkpoints are lost."""
    cpus: str = ""
    """CPU list of its exclusive CPUs; empty = the shared pool, see Placement."""
    mems: str = ""
    """List of the NUMA nodes its memory is to come from; empty = any."""


class AdmittedPod(msgspec.Struct, frozen=True):
    """Answer to AdmitPod: the pod's allocation is on disk, and its containers can be created from this."""

    grants: dict[str, ContainerGrant]
    """By container name."""
    warnings: tuple[str, ...] = ()
    """Warnings for the pod's owner: answers of plugins that contradict each other."""


class ClaimResult(msgspec.Struct, frozen=True):
    """One device of a claim's allocation."""

    request: str
    driver: str
    pool: str
    device: str


class PodClaim(msgspec.Struct, frozen=True):
    """A ResourceClaim a pod may use, as the API has it."""

    entry: str
    """Its name in the pod's spec.resourceClaims."""
    namespace: str
    name: str
    uid: str
    results: tuple[ClaimResult, ...] = ()


class ClaimReference(msgspec.Struct, frozen=True):
    """One of a container's resources.claims."""

    container: str
    entry: str
    request: str = ""
    resource: str = ""
    """The extended resource that the container requests, for which the scheduler made the claim."""


class PrepareClaims(msgspec.Struct, frozen=True):
    """Request to prepare a pod's claims with their DRA drivers before its containers are created."""

    uid: str
    namespace: str
    name: str
    claims: tuple[PodClaim, ...]
    references: tuple[ClaimReference, ...] = ()
    renew: bool = True
    """A sandbox is about to be made: claims prepared by an earlier incarnation of the manager are prepared again."""


class PreparedClaims(msgspec.Struct, frozen=True):
    """Answer to PrepareClaims: CDI device names that the drivers returned, each once."""

    cdi_devices: dict[str, tuple[str, ...]] = {}
    """By container."""


class UnprepareClaims(msgspec.Struct, frozen=True):
    """Request to give back the claims of a pod whose containers are dead."""

    uid: str


class ReleasePod(msgspec.Struct, frozen=True):
    """Request to free all that a pod holds, after its containers have died."""

    uid: str


class ReconcilePods(msgspec.Struct, frozen=True):
    """Request to free what every pod holds that is not named here."""

    active: tuple[str, ...]
    """Uids of all pods of this node that may still use devices."""


class PreStart(msgspec.Struct, frozen=True):
    """Request for PreStartContainer of the plugins that asked for it, right before a container starts."""

    uid: str
    container: str
    resources: tuple[str, ...] = ()
    """Extended resources the container asks for: those with a plugin must have devices by now."""


class ChaosDevice(msgspec.Struct, frozen=True):
    """Request to override the health of one device, above all reports."""

    resource: str
    """Resource of a device plugin; empty: the device is a driver's."""
    id: str
    """A driver's device: DRIVER/POOL/DEVICE."""
    health: str
    """unhealthy, healthy, for a driver's device also unknown (all forced), or empty: what plugin or driver says."""


class LedgerEvent(msgspec.Struct, frozen=True):
    """One event of `allocations` as it was published; marks grow by one per event."""

    mark: int
    allocation: PodAllocation
    """The pod after the event, or what it was when it was released."""
    new: bool = False
    deleted: bool = False


class LedgerHistory(msgspec.Struct, frozen=True):
    """Retained events of `allocations`, oldest first."""

    floor: int
    """Every event after this mark is here."""
    events: tuple[LedgerEvent, ...] = ()


def first_mark(now_ns: int) -> int:
    """Return the first mark of a ledger created now; it is greater than any mark of an earlier ledger."""
    return (now_ns // 1_000_000 - MARKS_BEGAN_MS) << MARK_SHIFT  # milliseconds since 2020 keep it below 63 bits


def ledger_began(mark: int) -> int:
    """Return the Unix time in ns at which the ledger of a mark began, in whole milliseconds; 0 for none."""
    return ((mark >> MARK_SHIFT) + MARKS_BEGAN_MS) * 1_000_000 if mark >> MARK_SHIFT else 0
