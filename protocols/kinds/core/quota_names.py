"""Names of resources in quotas and limit ranges, by upstream's tables."""

from protocols.kinds.check.table import texts
from protocols.kube.names import qualified_faults

COMPUTE = ("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory")
COUNTS = (
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims",
    "services.nodeports", "services.loadbalancers",
)  # fmt: skip
"""Resources that are whole numbers."""
QUOTA = frozenset(
    (*COMPUTE, *COUNTS, "ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage",
     "requests.storage")
)  # fmt: skip
HUGE = ("hugepages-", "requests.hugepages-")
STANDARD = "must be a standard resource type or fully qualified"


def is_quota_name(name: str) -> bool:
    """Return True for an unqualified resource that quotas count."""
    return name in QUOTA or name.startswith(HUGE)


def _standard_faults(name: str) -> list[str]:
    faults = qualified_faults(name)
    if not faults and "/" not in name and not is_quota_name(name) and name != "storage":
        return [STANDARD]
    return faults


standard_name = texts(_standard_faults, empty=True)
"""The check of a resource name in a LimitRange or quota; unqualified ones must be known."""
