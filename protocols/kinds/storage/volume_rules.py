"""Validation of persistent volumes, claims, storage classes and CSI objects."""

from protocols.kinds.check.causes import Cause, duplicate, forbidden, invalid, required, too_long, unsupported
from protocols.kinds.check.selectors import node_selector
from protocols.kinds.check.table import (
    Causes,
    Ordered,
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
from protocols.kinds.check.values import driver_name, label_key, subdomain
from protocols.kinds.storage.claim_rules import ATTRIBUTES
from protocols.kinds.storage.volume_sources import one_source, sources
from protocols.kube.jsons import same_json
from protocols.kube.meta import Object
from protocols.kube.names import qualified_faults
from protocols.kube.objects import items
from protocols.kube.quantity import parse_quantity

MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
EXPANDS = "controllerExpandSecretRef"
PARAMETERS, PARAMETER_BYTES = 512, 256 * 1024


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


def _modifiable(path: str, spec: Object, causes: Causes) -> None:
    if spec.get(ATTRIBUTES) is not None and spec.get("csi") is None:
        causes.append(required(f"{path}.csi", f"has to be specified when using {ATTRIBUTES}"))


VOLUME = Ordered(spec=together(_SPEC, one_source, _modifiable))
KEPT_VOLUME = Ordered(spec=together(_SPEC, _modifiable))
"""The checks of a volume whose source, which is immutable, was checked when it came."""


def _is_moved(spec: Object, before: Object) -> bool:
    """Return True if the source of a volume changes; it may gain the secret of a controller that expands it."""
    given, held = sources(spec), sources(before)
    if "csi" in given and "csi" in held and held["csi"].get(EXPANDS) is None:
        given["csi"] = {name: value for name, value in given["csi"].items() if name != EXPANDS}
    return not same_json(given, held)


def volume_change_causes(new: Object, old: Object) -> list[Cause]:
    """Check a change of a persistent volume: source and mode are immutable, a node affinity once it is set.

    A class of attributes may change, but not end.
    """
    now, before = new.get("spec") or {}, old.get("spec") or {}
    causes = []
    if _is_moved(now, before):
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


_NODE_DRIVER = Ordered("name nodeID", name=driver_name, nodeID=needed(_node_id), allocatable=Ordered(count=at_least(0)))


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
