"""Validation of persistent volumes, claims, storage classes and CSI objects."""

import re

from protocols.kinds.check.causes import Cause, duplicate, forbidden, invalid, required, too_long, unsupported
from protocols.kinds.check.selectors import node_selector
from protocols.kinds.check.table import (
    Causes,
    Ordered,
    Struct,
    anything,
    at_least,
    changed_causes,
    each,
    needed,
    once,
    one_of,
    texts,
    together,
    unique,
)
from protocols.kinds.check.values import label_key, subdomain
from protocols.kinds.shapes.registry import API, registry
from protocols.kinds.shapes.shape import STRUCT, TEXT
from protocols.kinds.storage.claim_rules import ATTRIBUTES
from protocols.kube.meta import Object
from protocols.kube.names import qualified_faults
from protocols.kube.objects import items
from protocols.kube.quantity import parse_quantity

MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
DRIVER = re.compile(r"[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?")
DRIVER_TEXT = "must consist of alphanumeric characters, '-' or '.', and start and end with an alphanumeric character"
DRIVER_LIMIT = 63
PARAMETERS, PARAMETER_BYTES = 512, 256 * 1024
PUBLISHED = "gcePersistentDisk"
"""Upstream's errors call this source persistentDisk."""


def _modes(path: str, modes: list[str], causes: Causes) -> None:
    causes.extend(unsupported(path, mode, MODES) for mode in modes if mode not in MODES)
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        causes.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))


def _capacity(path: str, capacity: Object, causes: Causes) -> None:
    causes += [] if capacity else [required(path)]
    if list(capacity) != ["storage"]:
        causes.append(unsupported(path, capacity or {}, ("storage",)))
    for name, amount in capacity.items() if capacity else ():
        if parse_quantity(amount).nanos <= 0:
            causes.append(invalid(f"{path}[{name}]", amount, "must be greater than zero"))


def _affinity(path: str, affinity: Object, causes: Causes) -> None:
    if affinity.get("required") is None:
        causes.append(required(f"{path}.required", "must specify required node constraints"))
    else:
        node_selector(f"{path}.required", affinity["required"], causes)


_SPEC = Ordered(
    "accessModes volumeMode capacity persistentVolumeReclaimPolicy",
    accessModes=needed(_modes),
    volumeMode=one_of("Block", "Filesystem", empty=True),
    capacity=_capacity,
    nodeAffinity=_affinity,
    persistentVolumeReclaimPolicy=one_of("Delete", "Recycle", "Retain", empty=True),
    storageClassName=subdomain,
    volumeAttributesClassName=needed(subdomain, "an empty string is disallowed"),
)


def sources(spec: Object) -> Object:
    """Return the sources of a volume's data, by field."""
    fields = registry().structs[f"{API}core.v1.PersistentVolumeSpec"].fields
    kinds = {name for name, field in fields.items() if field.form == STRUCT} - {"claimRef", "nodeAffinity"}
    return {name: value for name, value in spec.items() if name in kinds and value is not None}


def _one_source(path: str, spec: Object, causes: Causes) -> None:
    given = sources(spec)
    if not given:
        causes.append(required(path, "must specify a volume type"))
    first = next((name for name in ORDER if name in given), "")
    for name, source in given.items():
        where = f"{path}.{'persistentDisk' if name == PUBLISHED else name}"
        if name != first:
            causes.append(forbidden(where, "may not specify more than 1 volume type"))
        causes += _required_causes(where, name, source)
    if csi := given.get("csi"):
        _CSI(f"{path}.csi", csi, causes)


def _modifiable(path: str, spec: Object, causes: Causes) -> None:
    if spec.get(ATTRIBUTES) is not None and spec.get("csi") is None:
        causes.append(required(f"{path}.csi", f"has to be specified when using {ATTRIBUTES}"))


VOLUME = Ordered(spec=together(_SPEC, _one_source, _modifiable))


ORDER = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte", "cephfs",
    "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "azureDisk", "photonPersistentDisk",
    "portworxVolume", "scaleIO", "local", "storageos", "csi",
)  # fmt: skip
"""Sources in the order in which upstream looks for them: the first one is the volume's."""


def _required_causes(path: str, name: str, source: Object) -> list[Cause]:
    shape = registry().structs[f"{API}core.v1.PersistentVolumeSpec"].fields[name]
    wanted = [field for field in shape.required if shape.fields[field].form == TEXT]
    return [required(f"{path}.{field}") for field in wanted if not source.get(field)]


def driver(path: str, name: str, causes: Causes) -> None:
    """Check the name of a CSI driver; an empty one is reported elsewhere."""
    if name and len(name) > DRIVER_LIMIT:
        causes.append(too_long(path, DRIVER_LIMIT))
    if name and not DRIVER.fullmatch(name):
        causes.append(invalid(path, name, DRIVER_TEXT))


_secret = Struct("name namespace")
_CSI = together(
    Ordered(driver=driver),
    Struct(
        controllerPublishSecretRef=_secret,
        controllerExpandSecretRef=_secret,
        nodePublishSecretRef=_secret,
        nodeExpandSecretRef=_secret,
    ),
)


def volume_change_causes(new: Object, old: Object) -> list[Cause]:
    """Check a change of a persistent volume: source and mode are immutable, a node affinity once it is set.

    A class of attributes may change, but not end.
    """
    now, before = new.get("spec") or {}, old.get("spec") or {}
    causes = []
    if sources(now) != sources(before):
        path = "spec.persistentvolumesource"
        causes.append(forbidden(path, f"{path} is immutable after creation"))
    fixed = ["volumeMode"] if before.get("nodeAffinity") is None else ["volumeMode", "nodeAffinity"]
    causes += changed_causes(now, before, *fixed)
    if before.get(ATTRIBUTES) is not None and now.get(ATTRIBUTES) is None:
        causes.append(forbidden(f"spec.{ATTRIBUTES}", "update from non-nil value to nil is forbidden"))
    return causes


def parameters(path: str, given: Object, causes: Causes) -> None:
    """Check the number, keys and size of the parameters of a class."""
    if len(given) > PARAMETERS:
        causes.append(too_long(path, PARAMETERS))
        return
    causes.extend(invalid(path, key, "field can not be empty.") for key in given if not key)
    if sum(len(key.encode()) + len(value.encode()) for key, value in given.items()) > PARAMETER_BYTES:
        causes.append(too_long(path, PARAMETER_BYTES))


def _topologies(path: str, terms: list[Object], causes: Causes) -> None:
    seen = {"[]"}
    for number, term in enumerate(terms):
        where, expressions = f"{path}[{number}].matchLabelExpressions", items(term, "matchLabelExpressions")
        key = together(label_key, once())
        each(Ordered("values key", values=needed(unique), key=key))(where, expressions, causes)
        alike = {expression.get("key") or "": sorted(set(expression.get("values") or ())) for expression in expressions}
        same = repr(sorted(alike.items()))
        causes += [duplicate(where, "")] if same in seen else []
        seen.add(same)


provisioner = needed(texts(lambda name: qualified_faults(name.lower())))
"""Check of the driver that a class names, which need not be one of CSI."""
STORAGE_CLASS = Ordered(
    "provisioner reclaimPolicy volumeBindingMode",
    provisioner=provisioner,
    parameters=parameters,
    reclaimPolicy=one_of("Delete", "Retain", empty=True),
    volumeBindingMode=one_of("Immediate", "WaitForFirstConsumer", empty=True),
    allowedTopologies=_topologies,
)
SHORTEST_TOKEN, LONGEST_TOKEN, SHORTEST_PERIOD = 600, 2**32, 10


def _token_seconds(path: str, seconds: int, causes: Causes) -> None:
    if seconds < SHORTEST_TOKEN:
        causes.append(invalid(path, seconds, "may not specify a duration less than 10 minutes"))
    elif seconds > LONGEST_TOKEN:
        causes.append(invalid(path, seconds, "may not specify a duration larger than 2^32 seconds"))


def _audiences(path: str, requests: list[Object], causes: Causes) -> None:
    unique(path, [request.get("audience") for request in requests], causes, ".audience")
    each(Ordered(expirationSeconds=_token_seconds))(path, requests, causes)


_period = at_least(SHORTEST_PERIOD, f"must be greater than or equal to {SHORTEST_PERIOD} seconds")
CSI_DRIVER = Ordered(
    spec=Ordered(
        "fsGroupPolicy",
        fsGroupPolicy=one_of("File", "None", "ReadWriteOnceWithFSType", empty=True),
        volumeLifecycleModes=each(one_of("Persistent", "Ephemeral", empty=True), unindexed=True),
        tokenRequests=_audiences,
        nodeAllocatableUpdatePeriodSeconds=_period,
    )
)
NODE_ID_LIMIT = 256


def _node_id(path: str, node: str, causes: Causes) -> None:
    if len(node) > NODE_ID_LIMIT:
        causes.append(invalid(path, node, f"must be {NODE_ID_LIMIT} characters or less"))


_NODE_DRIVER = Ordered(
    "name nodeID", name=needed(driver), nodeID=needed(_node_id), allocatable=Ordered(count=at_least(0))
)


_topology_key = together(needed(anything), label_key)


def _node_driver(path: str, value: Object, causes: Causes) -> None:
    _NODE_DRIVER(path, value, causes)
    for key in value.get("topologyKeys") or ():  # upstream's paths of these lack the field
        _topology_key(path, key, causes)


CSI_NODE = Ordered(
    spec=Ordered(drivers=each(_node_driver, key=lambda driver: driver.get("name"), at=".name")),
)


def node_drivers_change_causes(new: Object, old: Object) -> list[Cause]:
    """Check changed drivers of a CSINode: one may come, go and change its limit, not its node or topology."""
    before = {item.get("name"): item for item in items(old, "spec", "drivers")}
    causes = []
    for index, item in enumerate(items(new, "spec", "drivers")):
        held = before.get(item.get("name"))
        if held is not None and any(item.get(field) != held.get(field) for field in ("nodeID", "topologyKeys")):
            causes.append(invalid(f"spec.drivers[{index}]", item, "field is immutable"))
    return causes
