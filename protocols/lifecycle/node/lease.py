"""The node's heartbeat as an object: a Lease in kube-node-lease. Pure."""

from protocols.kinds.table import LEASES, NODES
from protocols.kube.meta import Object

NAMESPACE = "kube-node-lease"


DURATION_S = 40


def lease_object(node: str, uid: str, renewed: str) -> Object:
    """Return the Lease; without the node's uid it has no owner yet. `renewed` is a MicroTime."""
    owner = {**NODES.type_meta, "name": node, "uid": uid}
    metadata: Object = {"name": node, "namespace": NAMESPACE}
    if uid:
        metadata["ownerReferences"] = [owner]
    spec = {"holderIdentity": node, "leaseDurationSeconds": DURATION_S, "renewTime": renewed}
    return {**LEASES.type_meta, "metadata": metadata, "spec": spec}
