"""The certificates of a plane: which ones must exist, and whether they do.

No cryptography is loaded here: a process of `supervisor.pki.issuing` makes the files, and a manifest, written last,
lists them.
"""

import time
from pathlib import Path

import msgspec

from protocols.messages.podworker import serving_name
from protocols.process.files import UNREADABLE

MANIFEST = "issued.json"
CA_DAYS = 3650
LEAF_DAYS = 730
RENEW_DAYS = 60
BACKDATED_DAYS = 3650
"""Certificates stay valid if the clock was ahead when they were issued."""
DAY_S = 86400

LOCAL = ("127.0.0.1", "::1", "localhost")
CLUSTER = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")


CLUSTER_CA = "ca"
"""Signs the users of the API and the servers that they connect to. Its files are PKI/ca.crt and PKI/ca.key."""
STORE_CA = "etcd/ca"
"""Signs only the store's server and its clients: a client certificate gives access to the whole store."""
FRONT_PROXY_CA = "front-proxy-ca"
"""Signs proxies in front of extension API servers, whose headers name the user: nobody has such a certificate yet."""
AUTHORITIES = (CLUSTER_CA, STORE_CA, FRONT_PROXY_CA)
OBSOLETE_FILES = ("store.crt", "store.key", "store-client.crt", "store-client.key")
"""Files of versions whose store trusted the cluster's CA."""


class Certificate(msgspec.Struct, frozen=True):
    """One certificate and its key: PKI/NAME.crt, PKI/NAME.key."""

    name: str
    common_name: str
    organization: str = ""
    hosts: tuple[str, ...] = ()
    """Addresses and DNS names of a server; empty for a client certificate."""
    authority: str = CLUSTER_CA


class Wanted(msgspec.Struct, frozen=True):
    """Certificates that must exist; other ones in a manifest mean that all are issued again."""

    certificates: tuple[Certificate, ...]


class Manifest(msgspec.Struct, frozen=True):
    """Certificates that were issued, written after all their files."""

    wanted: Wanted
    not_after: float
    """Unix time at which the first of them expires."""
    authorities: tuple[str, ...] = ()
    """PEM of the CAs that signed them, in the order of AUTHORITIES."""
    not_before: float = 0.0
    """Unix time from which all of them are valid; 0 in manifests of earlier versions."""


def wanted(node_name: str, api_names: tuple[str, ...] = ()) -> Wanted:
    """Return the certificates of a plane's users and servers, least privileges each."""
    node = Certificate("podworker", f"system:node:{node_name}", "system:nodes")
    return Wanted(
        (
            Certificate("admin", "kubernetes-admin", "system:masters"),
            Certificate("scheduler", "system:kube-scheduler"),
            Certificate("controllers", "system:kube-controller-manager"),
            node,
            Certificate("health", node.common_name, node.organization),
            Certificate("apiserver", "apiserver", hosts=(*LOCAL, *CLUSTER, *api_names)),
            Certificate("apiserver-kubelet-client", "kube-apiserver-kubelet-client"),
            Certificate("node-serving", node.common_name, node.organization, hosts=(serving_name(node_name),)),
            Certificate("apiserver-etcd-client", "kube-apiserver-etcd-client", authority=STORE_CA),
            Certificate("etcd/server", "etcd", hosts=LOCAL, authority=STORE_CA),
        )
    )


def current(pki: Path, what: Wanted, now: float | None = None) -> bool:
    """Return True if all certificates exist, are intact, of these CAs, have these names and are valid for a while."""
    now = time.time() if now is None else now
    try:
        manifest = msgspec.json.decode((pki / MANIFEST).read_bytes(), type=Manifest)
        authorities = read_authorities(pki)
    except (OSError, *UNREADABLE):
        return False
    if (manifest.wanted, manifest.authorities) != (what, authorities):
        return False
    if not manifest.not_before <= now <= manifest.not_after - RENEW_DAYS * DAY_S:
        return False
    keys = [path for name in AUTHORITIES if (path := pki / f"{name}.key").exists()]  # they may be kept elsewhere
    files = [pki / f"{leaf.name}{suffix}" for leaf in what.certificates for suffix in (".crt", ".key")]
    return all(whole(path) for path in (*keys, *files, pki / "sa.key", pki / "sa.pub"))


def read_authorities(pki: Path) -> tuple[str, ...]:
    """Return the certificates of the CAs as `Manifest.authorities` has them. Raises OSError, UnicodeDecodeError."""
    return tuple((pki / f"{name}.crt").read_text("utf-8") for name in AUTHORITIES)


def expiry(pki: Path) -> float | None:
    """Return the Unix time at which the first certificate of a plane expires; None if it has none."""
    try:
        manifest = (pki / MANIFEST).read_bytes()
        return msgspec.json.decode(manifest, type=Manifest).not_after
    except (OSError, *UNREADABLE):
        return None


def whole(path: Path) -> bool:
    """Return True if a file is PEM from its first to its last line; others are replaced."""
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return data.startswith(b"-----BEGIN ") and data.rstrip().endswith(b"-----")
