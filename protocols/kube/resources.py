"""Built-in resources, with their names on the wire, in etcd and in error texts."""

import msgspec


class Resource(msgspec.Struct, frozen=True):
    """One resource of one API version. `etcd_prefix` is empty when it equals the plural."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    etcd_prefix: str = ""

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects: `v1`, `coordination.k8s.io/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    @property
    def qualified(self) -> str:
        """Resource name in error texts: `pods`, `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def storage_prefix(self) -> str:
        """Prefix of all its keys in etcd, ending in a slash."""
        return f"/registry/{self.etcd_prefix or self.plural}/"

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        """URL path of the collection, an object or its subresource; parts must be valid names already."""
        parts = [f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        parts.extend(part for part in (name, subresource) if part)
        return "/".join(parts)


DRA = "resource.k8s.io"
EXTENSIONS = "apiextensions.k8s.io"
RBAC = "rbac.authorization.k8s.io"

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False)
NODES = Resource("", "v1", "nodes", "Node", False, etcd_prefix="minions")
PODS = Resource("", "v1", "pods", "Pod", True)
EVENTS = Resource("", "v1", "events", "Event", True)
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap", True)
SECRETS = Resource("", "v1", "secrets", "Secret", True)
SERVICEACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", True)
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
)
SERVICES = Resource("", "v1", "services", "Service", True, etcd_prefix="services/specs")
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints", True, etcd_prefix="services/endpoints")
ENDPOINTSLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True)
PERSISTENTVOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", False)
PERSISTENTVOLUMECLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)
STORAGECLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False)
CSINODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False)
CSIDRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False)
PRIORITYCLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
RUNTIMECLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False)
REPLICATIONCONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController", True, "controllers")
PODTEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate", True)
CONTROLLERREVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision", True)
DAEMONSETS = Resource("apps", "v1", "daemonsets", "DaemonSet", True)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)
REPLICASETS = Resource("apps", "v1", "replicasets", "ReplicaSet", True)
STATEFULSETS = Resource("apps", "v1", "statefulsets", "StatefulSet", True)
CRONJOBS = Resource("batch", "v1", "cronjobs", "CronJob", True)
JOBS = Resource("batch", "v1", "jobs", "Job", True)
LIMITRANGES = Resource("", "v1", "limitranges", "LimitRange", True)
RESOURCEQUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", True)
NETWORKPOLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", True)
PODDISRUPTIONBUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True)
CSISTORAGECAPACITIES = Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", True)
VOLUMEATTACHMENTS = Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", False)
ADMISSION = "admissionregistration.k8s.io"
VALIDATINGADMISSIONPOLICIES = Resource(
    ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False
)
VALIDATINGADMISSIONPOLICYBINDINGS = Resource(
    ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False
)
MUTATINGADMISSIONPOLICIES = Resource(ADMISSION, "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", False)
MUTATINGADMISSIONPOLICYBINDINGS = Resource(
    ADMISSION, "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", False
)
VALIDATINGWEBHOOKCONFIGURATIONS = Resource(
    ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)
MUTATINGWEBHOOKCONFIGURATIONS = Resource(
    ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False
)
CERTIFICATESIGNINGREQUESTS = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", False
)
HORIZONTALPODAUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True)
IPADDRESSES = Resource("networking.k8s.io", "v1", "ipaddresses", "IPAddress", False)
SERVICECIDRS = Resource("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", False)
VOLUMEATTRIBUTESCLASSES = Resource("storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass", False)
REGISTRATION = "apiregistration.k8s.io"
APISERVICES = Resource(
    REGISTRATION, "v1", "apiservices", "APIService", False, etcd_prefix=f"{REGISTRATION}/apiservices"
)

ALL = (
    NAMESPACES,
    NODES,
    PODS,
    EVENTS,
    CONFIGMAPS,
    SECRETS,
    SERVICEACCOUNTS,
    LEASES,
    RESOURCESLICES,
    DEVICECLASSES,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    RESOURCESLICEPATCHES,
    DEVICETAINTRULES,
    ROLES,
    ROLEBINDINGS,
    CLUSTERROLES,
    CLUSTERROLEBINDINGS,
    DEFINITIONS,
    SERVICES,
    ENDPOINTS,
    ENDPOINTSLICES,
    PERSISTENTVOLUMES,
    PERSISTENTVOLUMECLAIMS,
    STORAGECLASSES,
    CSINODES,
    CSIDRIVERS,
    PRIORITYCLASSES,
    RUNTIMECLASSES,
    REPLICATIONCONTROLLERS,
    PODTEMPLATES,
    CONTROLLERREVISIONS,
    DAEMONSETS,
    DEPLOYMENTS,
    REPLICASETS,
    STATEFULSETS,
    CRONJOBS,
    JOBS,
    NETWORKPOLICIES,
    PODDISRUPTIONBUDGETS,
    LIMITRANGES,
    RESOURCEQUOTAS,
    CSISTORAGECAPACITIES,
    VOLUMEATTACHMENTS,
    VALIDATINGADMISSIONPOLICIES,
    VALIDATINGADMISSIONPOLICYBINDINGS,
    MUTATINGADMISSIONPOLICIES,
    MUTATINGADMISSIONPOLICYBINDINGS,
    VALIDATINGWEBHOOKCONFIGURATIONS,
    MUTATINGWEBHOOKCONFIGURATIONS,
    CERTIFICATESIGNINGREQUESTS,
    HORIZONTALPODAUTOSCALERS,
    IPADDRESSES,
    SERVICECIDRS,
    VOLUMEATTRIBUTESCLASSES,
    APISERVICES,
)
"""Every served resource, in the order discovery shows them."""

BY_KIND = {(resource.api_version, resource.kind): resource for resource in ALL}
