"""The default roles of kube-system and kube-public, as upstream's, and whom they are bound to."""

NAMESPACE_ROLES = {
    "kube-public": """
system:controller:bootstrap-signer
    read core configmaps
    update core configmaps cluster-info
    events
""",
    "kube-system": """
extension-apiserver-authentication-reader
    read core configmaps extension-apiserver-authentication
system::leader-locking-kube-controller-manager
    create,read,update coordination.k8s.io leases
    create,read,update coordination.k8s.io leasecandidates
system::leader-locking-kube-scheduler
    create,read,update coordination.k8s.io leases
    create,read,update coordination.k8s.io leasecandidates
system:controller:bootstrap-signer
    read core secrets
system:controller:cloud-provider
    create,read core configmaps
system:controller:token-cleaner
    delete,read core secrets
    events
""",
}

READER = "extension-apiserver-authentication-reader"
NAMESPACE_SUBJECTS = {
    "system:controller:bootstrap-signer": ("ServiceAccount kube-system/bootstrap-signer",),
    READER: ("User system:kube-controller-manager", "User system:kube-scheduler"),
    "system::leader-locking-kube-controller-manager": (
        "User system:kube-controller-manager",
        "ServiceAccount kube-system/kube-controller-manager",
        "ServiceAccount kube-system/leader-election-controller",
    ),
    "system::leader-locking-kube-scheduler": (
        "User system:kube-scheduler",
        "ServiceAccount kube-system/kube-scheduler",
    ),
    "system:controller:cloud-provider": ("ServiceAccount kube-system/cloud-provider",),
    "system:controller:token-cleaner": ("ServiceAccount kube-system/token-cleaner",),
}
"""Subjects by role; a binding has the name of its role, but for BINDING_NAMES."""
BINDING_NAMES = {READER: "system::extension-apiserver-authentication-reader"}
