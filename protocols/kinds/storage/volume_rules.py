"""Validation of persistent volumes, claims, storage classes and CSI objects."""

import re

from protocols.kinds.check.causes import Cause, duplicate, forbidden, invalid, required, too_long, unsupported
from protocols.kinds.check.selectors import node_selector
from protocols.kinds.check.table import causes_of, changed_causes, unique
from protocols.kinds.shapes.registry import API, registry
from protocols.kinds.shapes.shape import STRUCT, TEXT
from protocols.kube.meta import Object
from protocols.kube.names import qualified_faults, subdomain_faults
from protocols.kube.objects import at, items
from protocols.kube.quantity import parse_quantity

MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
RECLAIM = ("Delete", "Recycle", "Retain")
VOLUME_MODES = ("Block", "Filesystem")
DRIVER = re.compile(r"[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?")
DRIVER_TEXT = "must consist of alphanumeric characters, '-' or '.', and start and end with an alphanumeric character"
DRIVER_LIMIT = 63
PARAMETERS, PARAMETER_BYTES = 512, 256 * 1024
PUBLISHED = "gcePersistentDisk"
"""Upstream's errors call this source persistentDisk."""


def mode_causes(spec: Object) -> list[Cause]:
    """Validate access modes and volume mode of a volume or claim."""
    modes = spec.get("accessModes") or []
    causes = [] if modes else [required("spec.accessModes")]
    causes += [unsupported("spec.accessModes", mode, MODES) for mode in modes if mode not in MODES]
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        text = "may not use ReadWriteOncePod with other access modes"
        causes.append(forbidden("spec.accessModes", text))
    if spec.get("volumeMode") not in VOLUME_MODES:
        causes.append(unsupported("spec.volumeMode", spec.get("volumeMode"), VOLUME_MODES))
    return causes


def volume_causes(volume: Object) -> list[Cause]:
    spec = volume.get("spec") or {}
    causes = mode_causes(spec) + _capacity_causes(spec.get("capacity") or {})
    affinity = at(spec, "nodeAffinity", "required")
    if spec.get("nodeAffinity") is not None and affinity is None:
        causes.append(required("spec.nodeAffinity.required", "must specify required node constraints"))
    elif affinity is not None:
        causes += causes_of(node_selector, "spec.nodeAffinity.required", affinity)
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy not in RECLAIM:
        causes.append(unsupported("spec.persistentVolumeReclaimPolicy", policy, RECLAIM))
    name = spec.get("storageClassName")
    causes += [invalid("spec.storageClassName", name, fault) for fault in (subdomain_faults(name) if name else ())]
    return causes + _source_causes(spec)


def _capacity_causes(capacity: Object) -> list[Cause]:
    causes = [] if capacity else [required("spec.capacity")]
    if list(capacity) != ["storage"]:
        causes.append(unsupported("spec.capacity", capacity, ("storage",)))
    for name, amount in capacity.items():
        if parse_quantity(amount).nanos <= 0:
            causes.append(invalid(f"spec.capacity[{name}]", amount, "must be greater than zero"))
    return causes


def sources(spec: Object) -> Object:
    """Return the sources of a volume's data, by field."""
    fields = registry().structs[f"{API}core.v1.PersistentVolumeSpec"].fields
    kinds = {name for name, field in fields.items() if field.form == STRUCT} - {"claimRef", "nodeAffinity"}
    return {name: value for name, value in spec.items() if name in kinds and value is not None}


def _source_causes(spec: Object) -> list[Cause]:
    found, causes = sources(spec), []
    if not found:
        return [required("spec", "must specify a volume type")]
    first = next((name for name in ORDER if name in found), next(iter(found)))
    for name, source in found.items():
        path = f"spec.{'persistentDisk' if name == PUBLISHED else name}"
        if name != first:
            causes.append(forbidden(path, "may not specify more than 1 volume type"))
        causes += _required_causes(path, name, source)
    if csi := found.get("csi"):
        causes += driver_causes("spec.csi.driver", csi.get("driver") or "") if csi.get("driver") else []
        causes += _secret_causes(csi)
    return causes


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


CHECKED_SECRETS = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)


def _secret_causes(csi: Object) -> list[Cause]:
    return [
        required(f"spec.csi.{reference}.{field}")
        for reference in csi
        if reference in CHECKED_SECRETS and isinstance(csi[reference], dict)
        for field in ("name", "namespace")
        if not csi[reference].get(field)
    ]


def driver_causes(path: str, name: str) -> list[Cause]:
    if not name:
        return [required(path)]
    causes = [too_long(path, DRIVER_LIMIT)] if len(name) > DRIVER_LIMIT else []
    return causes if DRIVER.fullmatch(name) else [*causes, invalid(path, name, DRIVER_TEXT)]


def volume_change_causes(new: Object, old: Object) -> list[Cause]:
    now, before = new.get("spec") or {}, old.get("spec") or {}
    causes = []
    if sources(now) != sources(before):
        path = "spec.persistentvolumesource"
        causes.append(forbidden(path, f"{path} is immutable after creation"))
    causes += changed_causes(now, before, "volumeMode")
    return causes + (changed_causes(now, before, "nodeAffinity") if before.get("nodeAffinity") is not None else [])


def class_causes(obj: Object) -> list[Cause]:
    name, parameters = obj.get("provisioner") or "", obj.get("parameters") or {}
    causes = [] if name else [required("provisioner")]
    causes += [invalid("provisioner", name, fault) for fault in (qualified_faults(name.lower()) if name else ())]
    if len(parameters) > PARAMETERS:
        return [*causes, too_long("parameters", PARAMETERS)]
    causes += [invalid("parameters", key, "field can not be empty.") for key in parameters if not key]
    if sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items()) > PARAMETER_BYTES:
        causes.append(too_long("parameters", PARAMETER_BYTES))
    for field, allowed in (("reclaimPolicy", ("Delete", "Retain")), ("volumeBindingMode", BINDING)):
        if obj.get(field) not in allowed:
            causes.append(unsupported(field, obj.get(field), allowed))
    return causes + _topologies_causes(obj)


BINDING = ("Immediate", "WaitForFirstConsumer")


def class_change_causes(new: Object, old: Object) -> list[Cause]:
    return changed_causes(new, old, "parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")


def _topologies_causes(obj: Object) -> list[Cause]:
    causes, terms = list[Cause](), {"[]"}
    for number, term in enumerate(items(obj, "allowedTopologies")):
        path, expressions = f"allowedTopologies[{number}].matchLabelExpressions", items(term, "matchLabelExpressions")
        keys = set[str]()
        for index, each in enumerate(expressions):
            key, values, where = each.get("key") or "", each.get("values") or [], f"{path}[{index}]"
            causes += [] if values else [required(f"{where}.values")]
            unique(f"{where}.values", values, causes)
            causes += [invalid(f"{where}.key", key, fault) for fault in qualified_faults(key)]
            if key in keys:
                causes.append(duplicate(f"{where}.key", key))
            keys.add(key)
        alike = {each.get("key") or "": sorted(set(each.get("values") or ())) for each in expressions}
        same = repr(sorted(alike.items()))
        causes += [duplicate(path, "")] if same in terms else []
        terms.add(same)
    return causes


POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
LIFECYCLES = ("Persistent", "Ephemeral")
SHORTEST_TOKEN, LONGEST_TOKEN, SHORTEST_PERIOD = 600, 2**32, 10


def driver_object_causes(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    causes = list[Cause]()
    policy, modes = spec.get("fsGroupPolicy"), spec.get("volumeLifecycleModes") or []
    causes += [] if policy in POLICIES else [unsupported("spec.fsGroupPolicy", policy, POLICIES)]
    causes += [unsupported("spec.volumeLifecycleModes", mode, LIFECYCLES) for mode in modes if mode not in LIFECYCLES]
    audiences = [each.get("audience") for each in items(spec, "tokenRequests")]
    unique("spec.tokenRequests", audiences, causes, ".audience")
    for index, each in enumerate(items(spec, "tokenRequests")):
        seconds, path = each.get("expirationSeconds"), f"spec.tokenRequests[{index}].expirationSeconds"
        if seconds is not None and seconds < SHORTEST_TOKEN:
            causes.append(invalid(path, seconds, "may not specify a duration less than 10 minutes"))
        elif seconds is not None and seconds > LONGEST_TOKEN:
            causes.append(invalid(path, seconds, "may not specify a duration larger than 2^32 seconds"))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < SHORTEST_PERIOD:
        text = f"must be greater than or equal to {SHORTEST_PERIOD} seconds"
        causes.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, text))
    return causes


def driver_change_causes(new: Object, old: Object) -> list[Cause]:
    now, before = new.get("spec") or {}, old.get("spec") or {}
    fixed = [field for field in ("attachRequired", "volumeLifecycleModes") if now.get(field) != before.get(field)]
    return [invalid(f"spec.{field}", now.get(field), "field is immutable") for field in fixed]


NODE_ID_LIMIT = 256


def node_drivers_causes(obj: Object) -> list[Cause]:
    causes, drivers = list[Cause](), items(obj, "spec", "drivers")
    for index, each in enumerate(drivers):
        path, node = f"spec.drivers[{index}]", each.get("nodeID") or ""
        causes += driver_causes(f"{path}.name", each.get("name") or "")
        causes += [] if node else [required(f"{path}.nodeID")]
        if len(node) > NODE_ID_LIMIT:
            causes.append(invalid(f"{path}.nodeID", node, f"must be {NODE_ID_LIMIT} characters or less"))
        count = at(each, "allocatable", "count")
        if count is not None and count < 0:
            causes.append(invalid(f"{path}.allocatable.count", count, "must be greater than or equal to 0"))
        for key in each.get("topologyKeys") or ():
            causes += [] if key else [required(path)]
            causes += [invalid(path, key, fault) for fault in qualified_faults(key)]
    unique("spec.drivers", [each.get("name") for each in drivers], causes, ".name")
    return causes


def node_drivers_change_causes(new: Object, old: Object) -> list[Cause]:
    """A driver may come, go and change its limit; its node and its topology stay."""
    before = {each.get("name"): each for each in items(old, "spec", "drivers")}
    causes = []
    for index, each in enumerate(items(new, "spec", "drivers")):
        held = before.get(each.get("name"))
        fixed = ("nodeID", "topologyKeys")
        if held is not None and any(each.get(field) != held.get(field) for field in fixed):
            causes.append(invalid(f"spec.drivers[{index}]", each, "field is immutable"))
    return causes
