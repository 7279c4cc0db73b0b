"""Merge rules of strategic merge patches for the lists of served kinds: by a key, or as a set.

A list that is not named here is replaced as a whole: tolerations, taints, container statuses, args, everything in the
specs of resource.k8s.io.
"""

import msgspec


class Node(msgspec.Struct, frozen=True):
    """Merge rules of a value.

    `key` is set for a list of maps that is merged by that key, `scalars` for a list that is merged as a set. `fields`
    describes the map itself, or the elements of the list.
    """

    key: str = ""
    scalars: bool = False
    fields: dict[str, "Node"] = {}


NOTHING = Node()
SCALARS = Node(scalars=True)


def by(key: str, **fields: Node) -> Node:
    return Node(key=key, fields=fields)


def within(**fields: Node) -> Node:
    return Node(fields=fields)


META = within(ownerReferences=by("uid"), finalizers=SCALARS)
CONDITIONS = by("type")

CONTAINERS = by(
    "name",
    env=by("name"),
    ports=by("containerPort"),
    volumeMounts=by("mountPath"),
    volumeDevices=by("devicePath"),
)
VOLUMES = by("name", ephemeral=within(volumeClaimTemplate=within(metadata=META)))

POD_SPEC = within(
    containers=CONTAINERS,
    initContainers=CONTAINERS,
    ephemeralContainers=CONTAINERS,
    imagePullSecrets=by("name"),
    schedulingGates=by("name"),
    volumes=VOLUMES,
    resourceClaims=by("name"),
    hostAliases=by("ip"),
    topologySpreadConstraints=by("topologyKey"),
)
POD_STATUS = within(
    conditions=CONDITIONS,
    podIPs=by("ip"),
    hostIPs=by("ip"),
    resourceClaimStatuses=by("name"),
    allocatedResourcesStatus=by("name"),
)

KINDS: dict[str, Node] = {
    "Pod": within(metadata=META, spec=POD_SPEC, status=POD_STATUS),
    "Node": within(
        metadata=META,
        spec=within(podCIDRs=SCALARS),
        status=within(conditions=CONDITIONS, addresses=by("type")),
    ),
    "Namespace": within(metadata=META, status=within(conditions=CONDITIONS)),
    "Service": within(metadata=META, spec=within(ports=by("port")), status=within(conditions=CONDITIONS)),
    "ServiceAccount": within(metadata=META, secrets=by("name")),
    "ResourceClaim": within(metadata=META, status=within(reservedFor=by("uid"))),
    "ResourceClaimTemplate": within(metadata=META, spec=within(metadata=META)),
}

PLAIN = within(metadata=META)
"""Kinds with no merged list of their own: events, configmaps, secrets, leases, slices, classes, slice patches."""


def node_of(kind: str) -> Node:
    return KINDS.get(kind, PLAIN)
