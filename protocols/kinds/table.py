"""The resources that are served, with their names on the wire, in etcd and in error texts."""

from collections.abc import Mapping
from functools import cached_property

import msgspec


class Resource(msgspec.Struct, frozen=True, dict=True):
    """One resource of one API version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    etcd_prefix: str = ""
    """Prefix of its keys below /registry/; "" means the plural."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular_name: str | None = None
    """None means the kind in lower case."""
    list_name: str = ""
    """Kind of a list; "" means the kind with the suffix List."""

    @cached_property
    def api_version(self) -> str:
        """The apiVersion of its objects: `v1`, `coordination.k8s.io/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def type_meta(self) -> Mapping[str, str]:
        """Fields apiVersion and kind of its objects."""
        return {"apiVersion": self.api_version, "kind": self.kind}

    @property
    def singular(self) -> str:
        return self.kind.lower() if self.singular_name is None else self.singular_name

    @cached_property
    def list_kind(self) -> str:
        return self.list_name or f"{self.kind}List"

    @cached_property
    def full_name(self) -> str:
        """Resource name in error texts: `pods`, `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def storage_prefix(self) -> str:
        """Prefix of all its keys in etcd, ending in a slash."""
        return f"/registry/{self.etcd_prefix or self.plural}/"

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, an object or its subresource; parts must be valid names already."""
        parts = [f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        parts.extend(part for part in (name, subresource) if part)
        return "/".join(parts)


DRA = "resource.k8s.io"
EXTENSIONS = "apiextensions.k8s.io"
RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io"
STORAGE = "storage.k8s.io"
REGISTRATION = "apiregistration.k8s.io"
NETWORKING = "networking.k8s.io"
IN_ALL, OF_API = ("all",), ("api-extensions",)
"""Categories: what `kubectl get all` lists, and what extends the API."""

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False, short_names=("ns",))
NODES = Resource("", "v1", "nodes", "Node", False, etcd_prefix="minions", short_names=("no",))
PODS = Resource("", "v1", "pods", "Pod", True, short_names=("po",), categories=IN_ALL)
EVENTS = Resource("", "v1", "events", "Event", True, short_names=("ev",))
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap", True, short_names=("cm",))
SECRETS = Resource("", "v1", "secrets", "Secret", True)
SERVICEACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", True, short_names=("sa",))
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True)
RESOURCESLICES = Resource(DRA, "v1", "resourceslices", "ResourceSlice", False)
DEVICECLASSES = Resource(DRA, "v1", "deviceclasses", "DeviceClass", False)
RESOURCECLAIMS = Resource(DRA, "v1", "resourceclaims", "ResourceClaim", True)
RESOURCECLAIMTEMPLATES = Resource(DRA, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True)
RESOURCESLICEPATCHES = Resource(DRA, "v1alpha3", "resourceslicepatches", "ResourceSlicePatch", False)
DEVICETAINTRULES = Resource(DRA, "v1beta2", "devicetaintrules", "DeviceTaintRule", False)
ROLES = Resource(RBAC, "v1", "roles", "Role", True)
ROLEBINDINGS = Resource(RBAC, "v1", "rolebindings", "RoleBinding", True)
CLUSTERROLES = Resource(RBAC, "v1", "clusterroles", "ClusterRole", False)
CLUSTERROLEBINDINGS = Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", False)
DEFINITIONS = Resource(
    EXTENSIONS,
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    False,
    etcd_prefix=f"{EXTENSIONS}/customresourcedefinitions",
    short_names=("crd", "crds"),
    categories=OF_API,
)
SERVICES = Resource(
    "", "v1", "services", "Service", True, etcd_prefix="services/specs", short_names=("svc",), categories=IN_ALL
)
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints", True, etcd_prefix="services/endpoints", short_names=("ep",))
ENDPOINTSLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True)
PERSISTENTVOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", False, short_names=("pv",))
PERSISTENTVOLUMECLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, short_names=("pvc",)
)
STORAGECLASSES = Resource(STORAGE, "v1", "storageclasses", "StorageClass", False, short_names=("sc",))
CSINODES = Resource(STORAGE, "v1", "csinodes", "CSINode", False)
CSIDRIVERS = Resource(STORAGE, "v1", "csidrivers", "CSIDriver", False)
PRIORITYCLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, short_names=("pc",))
RUNTIMECLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False)
REPLICATIONCONTROLLERS = Resource(
    "",
    "v1",
    "replicationcontrollers",
    "ReplicationController",
    True,
    etcd_prefix="controllers",
    short_names=("rc",),
    categories=IN_ALL,
)
PODTEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate", True)
CONTROLLERREVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision", True)
DAEMONSETS = Resource("apps", "v1", "daemonsets", "DaemonSet", True, short_names=("ds",), categories=IN_ALL)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True, short_names=("deploy",), categories=IN_ALL)
REPLICASETS = Resource("apps", "v1", "replicasets", "ReplicaSet", True, short_names=("rs",), categories=IN_ALL)
STATEFULSETS = Resource("apps", "v1", "statefulsets", "StatefulSet", True, short_names=("sts",), categories=IN_ALL)
CRONJOBS = Resource("batch", "v1", "cronjobs", "CronJob", True, short_names=("cj",), categories=IN_ALL)
JOBS = Resource("batch", "v1", "jobs", "Job", True, categories=IN_ALL)
NETWORKPOLICIES = Resource(NETWORKING, "v1", "networkpolicies", "NetworkPolicy", True, short_names=("netpol",))
PODDISRUPTIONBUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, short_names=("pdb",)
)
LIMITRANGES = Resource("", "v1", "limitranges", "LimitRange", True, short_names=("limits",))
RESOURCEQUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", True, short_names=("quota",))
CSISTORAGECAPACITIES = Resource(STORAGE, "v1", "csistoragecapacities", "CSIStorageCapacity", True)
VOLUMEATTACHMENTS = Resource(STORAGE, "v1", "volumeattachments", "VolumeAttachment", False)
VALIDATINGADMISSIONPOLICIES = Resource(
    ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False, categories=OF_API
)
VALIDATINGADMISSIONPOLICYBINDINGS = Resource(
    ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False, categories=OF_API
)
MUTATINGADMISSIONPOLICIES = Resource(
    ADMISSION, "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", False, categories=OF_API
)
MUTATINGADMISSIONPOLICYBINDINGS = Resource(
    ADMISSION, "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", False, categories=OF_API
)
VALIDATINGWEBHOOKCONFIGURATIONS = Resource(
    ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False, categories=OF_API
)
MUTATINGWEBHOOKCONFIGURATIONS = Resource(
    ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False, categories=OF_API
)
CERTIFICATESIGNINGREQUESTS = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", False, short_names=("csr",)
)
HORIZONTALPODAUTOSCALERS = Resource(
    "autoscaling",
    "v2",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
    True,
    short_names=("hpa",),
    categories=IN_ALL,
)
IPADDRESSES = Resource(NETWORKING, "v1", "ipaddresses", "IPAddress", False, short_names=("ip",))
SERVICECIDRS = Resource(NETWORKING, "v1", "servicecidrs", "ServiceCIDR", False)
VOLUMEATTRIBUTESCLASSES = Resource(
    STORAGE, "v1", "volumeattributesclasses", "VolumeAttributesClass", False, short_names=("vac",)
)
APISERVICES = Resource(
    REGISTRATION, "v1", "apiservices", "APIService", False, etcd_prefix=f"{REGISTRATION}/apiservices", categories=OF_API
)

ALL = tuple(value for value in tuple(globals().values()) if isinstance(value, Resource))
"""Every resource with objects of its own, in the order of this page."""
BY_KIND = {(resource.api_version, resource.kind): resource for resource in ALL}
