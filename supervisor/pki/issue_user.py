"""Issue a client certificate for one of Kubernetes' own programs, or an administrator, with the CA of the plane.

`issue` loads cryptography, which a supervisor must not keep in memory.
"""

import datetime
from pathlib import Path

from supervisor.pki.certificates import Certificate
from supervisor.pki.kubeconfig import KubeconfigAccess
from supervisor.pki.node_config import USER as NODE_USER

NODES = "system:nodes"
KUBELET = "kubelet"
USERS = {
    "admin": ("kubernetes-admin", "system:masters"),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-proxy": ("system:kube-proxy", ""),
}
"""User and group by program, as kubeadm's."""


def certificate_of(program: str, node: str = "") -> Certificate:
    """Return the certificate of a program; kubelet's is that of its `node`."""
    if program == KUBELET:
        return Certificate("client", NODE_USER + node, NODES)
    user, group = USERS[program]
    return Certificate("client", user, group)


def issue(pki: Path, what: Certificate, server: str) -> KubeconfigAccess:
    """Sign a client certificate with the CA of `pki`; writes nothing. Raises PkiFailed."""
    from supervisor.pki.issue import cluster_authority, make_leaf

    now = datetime.datetime.now(datetime.UTC)
    authority = cluster_authority(pki, now)
    leaf = make_leaf(authority, what, now)
    ca = (pki / "ca.crt").read_bytes()
    return KubeconfigAccess(server=server, user=what.common_name, ca=ca, certificate=leaf.certificate, key=leaf.key)
