"""Typed views of JSON objects. Made from facts/ by `python -m protocols.kinds.generate --write`."""

from typing import Any, TypedDict

Pod = TypedDict("Pod", {"apiVersion": str, "kind": str, "metadata": ObjectMeta, "spec": PodSpec, "status": PodStatus},
    total=False)
Node = TypedDict("Node", {"apiVersion": str, "kind": str, "metadata": ObjectMeta, "spec": NodeSpec,
    "status": NodeStatus}, total=False)
Event = TypedDict("Event", {"apiVersion": str, "kind": str, "metadata": ObjectMeta, "involvedObject": ObjectReference,
    "reason": str, "message": str, "source": EventSource, "firstTimestamp": str | None, "lastTimestamp": str | None,
    "count": int, "type": str, "eventTime": str | None, "series": EventSeries, "action": str,
    "related": ObjectReference, "reportingComponent": str, "reportingInstance": str}, total=False)
Namespace = TypedDict("Namespace", {"apiVersion": str, "kind": str, "metadata": ObjectMeta, "spec": NamespaceSpec,
    "status": NamespaceStatus}, total=False)
ConfigMap = TypedDict("ConfigMap", {"apiVersion": str, "kind": str, "metadata": ObjectMeta, "data": dict[str, str],
    "binaryData": dict[str, str], "immutable": bool}, total=False)
Secret = TypedDict("Secret", {"apiVersion": str, "kind": str, "metadata": ObjectMeta, "data": dict[str, str],
    "type": str, "stringData": dict[str, str], "immutable": bool}, total=False)
Service = TypedDict("Service", {"apiVersion": str, "kind": str, "metadata": ObjectMeta, "spec": ServiceSpec,
    "status": ServiceStatus}, total=False)
PersistentVolumeClaim = TypedDict("PersistentVolumeClaim", {"apiVersion": str, "kind": str, "metadata": ObjectMeta,
    "spec": PersistentVolumeClaimSpec, "status": PersistentVolumeClaimStatus}, total=False)
ResourceClaim = TypedDict("ResourceClaim", {"apiVersion": str, "kind": str, "metadata": ObjectMeta,
    "spec": ResourceClaimSpec, "status": ResourceClaimStatus}, total=False)
ResourceClaimTemplate = TypedDict("ResourceClaimTemplate", {"apiVersion": str, "kind": str, "metadata": ObjectMeta,
    "spec": ResourceClaimTemplateSpec}, total=False)
ResourceSlice = TypedDict("ResourceSlice", {"apiVersion": str, "kind": str, "metadata": ObjectMeta,
    "spec": ResourceSliceSpec}, total=False)
DeviceClass = TypedDict("DeviceClass", {"apiVersion": str, "kind": str, "metadata": ObjectMeta,
    "spec": DeviceClassSpec}, total=False)
ResourceSlicePatch = TypedDict("ResourceSlicePatch", {"apiVersion": str, "kind": str, "metadata": ObjectMeta,
    "spec": ResourceSlicePatchSpec}, total=False)
DeviceTaintRule = TypedDict("DeviceTaintRule", {"apiVersion": str, "kind": str, "metadata": ObjectMeta,
    "spec": DeviceTaintRuleSpec, "status": DeviceTaintRuleStatus}, total=False)
Lease = TypedDict("Lease", {"apiVersion": str, "kind": str, "metadata": ObjectMeta, "spec": LeaseSpec}, total=False)
RuntimeClass = TypedDict("RuntimeClass", {"apiVersion": str, "kind": str, "metadata": ObjectMeta, "handler": str,
    "overhead": Overhead, "scheduling": Scheduling}, total=False)
PodDisruptionBudget = TypedDict("PodDisruptionBudget", {"apiVersion": str, "kind": str, "metadata": ObjectMeta,
    "spec": PodDisruptionBudgetSpec, "status": PodDisruptionBudgetStatus}, total=False)
StorageClass = TypedDict("StorageClass", {"apiVersion": str, "kind": str, "metadata": ObjectMeta, "provisioner": str,
    "parameters": dict[str, str], "reclaimPolicy": str, "mountOptions": list[str], "allowVolumeExpansion": bool,
    "volumeBindingMode": str, "allowedTopologies": list[TopologySelectorTerm]}, total=False)
ObjectMeta = TypedDict("ObjectMeta", {"name": str, "generateName": str, "namespace": str, "selfLink": str, "uid": str,
    "resourceVersion": str, "generation": int, "creationTimestamp": str, "deletionTimestamp": str,
    "deletionGracePeriodSeconds": int, "labels": dict[str, str], "annotations": dict[str, str],
    "ownerReferences": list[OwnerReference], "finalizers": list[str], "managedFields": list[ManagedFieldsEntry]},
    total=False)
PodSpec = TypedDict("PodSpec", {"volumes": list[Volume], "containers": list[Container], "restartPolicy": str,
    "terminationGracePeriodSeconds": int, "activeDeadlineSeconds": int, "dnsPolicy": str,
    "nodeSelector": dict[str, str], "serviceAccountName": str, "serviceAccount": str, "nodeName": str,
    "hostNetwork": bool, "hostPID": bool, "hostIPC": bool, "securityContext": PodSecurityContext,
    "imagePullSecrets": list[LocalObjectReference], "hostname": str, "subdomain": str, "affinity": Affinity,
    "schedulerName": str, "initContainers": list[Container], "automountServiceAccountToken": bool,
    "tolerations": list[Toleration], "hostAliases": list[HostAlias], "priorityClassName": str, "priority": int,
    "dnsConfig": PodDNSConfig, "shareProcessNamespace": bool, "readinessGates": list[PodReadinessGate],
    "runtimeClassName": str, "enableServiceLinks": bool, "preemptionPolicy": str, "overhead": dict[str, str],
    "topologySpreadConstraints": list[TopologySpreadConstraint], "ephemeralContainers": list[EphemeralContainer],
    "setHostnameAsFQDN": bool, "os": PodOS, "hostUsers": bool, "schedulingGates": list[PodSchedulingGate],
    "resourceClaims": list[PodResourceClaim], "resources": ResourceRequirements, "hostnameOverride": str,
    "schedulingGroup": PodSchedulingGroup}, total=False)
PodStatus = TypedDict("PodStatus", {"phase": str, "conditions": list[PodCondition], "message": str, "reason": str,
    "hostIP": str, "podIP": str, "startTime": str, "containerStatuses": list[ContainerStatus], "qosClass": str,
    "initContainerStatuses": list[ContainerStatus], "nominatedNodeName": str, "podIPs": list[PodIP],
    "ephemeralContainerStatuses": list[ContainerStatus], "resize": str,
    "resourceClaimStatuses": list[PodResourceClaimStatus], "hostIPs": list[HostIP], "observedGeneration": int,
    "extendedResourceClaimStatus": PodExtendedResourceClaimStatus, "allocatedResources": dict[str, str],
    "resources": ResourceRequirements,
    "nodeAllocatableResourceClaimStatuses": list[NodeAllocatableResourceClaimStatus],
    "allocatedResourcesStatus": list[ResourceStatus]}, total=False)
NodeSpec = TypedDict("NodeSpec", {"podCIDR": str, "externalID": str, "providerID": str, "unschedulable": bool,
    "taints": list[Taint], "configSource": NodeConfigSource, "podCIDRs": list[str]}, total=False)
NodeStatus = TypedDict("NodeStatus", {"capacity": dict[str, str], "allocatable": dict[str, str], "phase": str,
    "conditions": list[NodeCondition], "addresses": list[NodeAddress], "daemonEndpoints": NodeDaemonEndpoints,
    "nodeInfo": NodeSystemInfo, "images": list[ContainerImage], "volumesInUse": list[str],
    "volumesAttached": list[AttachedVolume], "config": NodeConfigStatus, "runtimeHandlers": list[NodeRuntimeHandler],
    "features": NodeFeatures, "declaredFeatures": list[str]}, total=False)
ObjectReference = TypedDict("ObjectReference", {"kind": str, "namespace": str, "name": str, "uid": str,
    "apiVersion": str, "resourceVersion": str, "fieldPath": str}, total=False)
EventSource = TypedDict("EventSource", {"component": str, "host": str}, total=False)
EventSeries = TypedDict("EventSeries", {"count": int, "lastObservedTime": str | None}, total=False)
NamespaceSpec = TypedDict("NamespaceSpec", {"finalizers": list[str]}, total=False)
NamespaceStatus = TypedDict("NamespaceStatus", {"phase": str, "conditions": list[NamespaceCondition]}, total=False)
ServiceSpec = TypedDict("ServiceSpec", {"ports": list[ServicePort], "selector": dict[str, str], "clusterIP": str,
    "type": str, "externalIPs": list[str], "sessionAffinity": str, "loadBalancerIP": str,
    "loadBalancerSourceRanges": list[str], "externalName": str, "externalTrafficPolicy": str,
    "healthCheckNodePort": int, "publishNotReadyAddresses": bool, "sessionAffinityConfig": SessionAffinityConfig,
    "ipFamilyPolicy": str, "clusterIPs": list[str], "ipFamilies": list[str], "allocateLoadBalancerNodePorts": bool,
    "loadBalancerClass": str, "internalTrafficPolicy": str, "trafficDistribution": str}, total=False)
ServiceStatus = TypedDict("ServiceStatus", {"loadBalancer": LoadBalancerStatus, "conditions": list[Condition]},
    total=False)
PersistentVolumeClaimSpec = TypedDict("PersistentVolumeClaimSpec", {"accessModes": list[str],
    "resources": VolumeResourceRequirements, "volumeName": str, "selector": LabelSelector, "storageClassName": str,
    "volumeMode": str, "dataSource": TypedLocalObjectReference, "dataSourceRef": TypedObjectReference,
    "volumeAttributesClassName": str}, total=False)
PersistentVolumeClaimStatus = TypedDict("PersistentVolumeClaimStatus", {"phase": str, "accessModes": list[str],
    "capacity": dict[str, str], "conditions": list[PersistentVolumeClaimCondition],
    "allocatedResources": dict[str, str], "allocatedResourceStatuses": dict[str, str],
    "currentVolumeAttributesClassName": str, "modifyVolumeStatus": ModifyVolumeStatus}, total=False)
ResourceClaimSpec = TypedDict("ResourceClaimSpec", {"devices": DeviceClaim}, total=False)
ResourceClaimStatus = TypedDict("ResourceClaimStatus", {"allocation": AllocationResult,
    "reservedFor": list[ResourceClaimConsumerReference], "devices": list[AllocatedDeviceStatus]}, total=False)
ResourceClaimTemplateSpec = TypedDict("ResourceClaimTemplateSpec", {"metadata": ObjectMeta,
    "spec": ResourceClaimSpec}, total=False)
ResourceSliceSpec = TypedDict("ResourceSliceSpec", {"driver": str, "pool": ResourcePool, "nodeName": str,
    "nodeSelector": NodeSelector, "allNodes": bool, "devices": list[Device], "perDeviceNodeSelection": bool,
    "sharedCounters": list[CounterSet]}, total=False)
DeviceClassSpec = TypedDict("DeviceClassSpec", {"selectors": list[DeviceSelector],
    "config": list[DeviceClassConfiguration], "extendedResourceName": str}, total=False)
ResourceSlicePatchSpec = TypedDict("ResourceSlicePatchSpec", {"devices": DevicePatch}, total=False)
DeviceTaintRuleSpec = TypedDict("DeviceTaintRuleSpec", {"deviceSelector": DeviceTaintSelector, "taint": DeviceTaint},
    total=False)
DeviceTaintRuleStatus = TypedDict("DeviceTaintRuleStatus", {"conditions": list[Condition]}, total=False)
LeaseSpec = TypedDict("LeaseSpec", {"holderIdentity": str, "leaseDurationSeconds": int, "acquireTime": str,
    "renewTime": str, "leaseTransitions": int, "strategy": str, "preferredHolder": str}, total=False)
Overhead = TypedDict("Overhead", {"podFixed": dict[str, str]}, total=False)
Scheduling = TypedDict("Scheduling", {"nodeSelector": dict[str, str], "tolerations": list[Toleration]}, total=False)
PodDisruptionBudgetSpec = TypedDict("PodDisruptionBudgetSpec", {"minAvailable": int | str, "selector": LabelSelector,
    "maxUnavailable": int | str, "unhealthyPodEvictionPolicy": str}, total=False)
PodDisruptionBudgetStatus = TypedDict("PodDisruptionBudgetStatus", {"observedGeneration": int,
    "disruptedPods": dict[str, str], "disruptionsAllowed": int, "currentHealthy": int, "desiredHealthy": int,
    "expectedPods": int, "conditions": list[Condition]}, total=False)
TopologySelectorTerm = TypedDict("TopologySelectorTerm",
    {"matchLabelExpressions": list[TopologySelectorLabelRequirement]}, total=False)
OwnerReference = TypedDict("OwnerReference", {"kind": str, "name": str, "uid": str, "apiVersion": str,
    "controller": bool, "blockOwnerDeletion": bool}, total=False)
ManagedFieldsEntry = TypedDict("ManagedFieldsEntry", {"manager": str, "operation": str, "apiVersion": str,
    "time": str, "fieldsType": str, "fieldsV1": Any, "subresource": str}, total=False)
Volume = TypedDict("Volume", {"name": str, "hostPath": HostPathVolumeSource, "emptyDir": EmptyDirVolumeSource,
    "gcePersistentDisk": GCEPersistentDiskVolumeSource, "awsElasticBlockStore": AWSElasticBlockStoreVolumeSource,
    "gitRepo": GitRepoVolumeSource, "secret": SecretVolumeSource, "nfs": NFSVolumeSource, "iscsi": ISCSIVolumeSource,
    "glusterfs": GlusterfsVolumeSource, "persistentVolumeClaim": PersistentVolumeClaimVolumeSource,
    "rbd": RBDVolumeSource, "flexVolume": FlexVolumeSource, "cinder": CinderVolumeSource,
    "cephfs": CephFSVolumeSource, "flocker": FlockerVolumeSource, "downwardAPI": DownwardAPIVolumeSource,
    "fc": FCVolumeSource, "azureFile": AzureFileVolumeSource, "configMap": ConfigMapVolumeSource,
    "vsphereVolume": VsphereVirtualDiskVolumeSource, "quobyte": QuobyteVolumeSource,
    "azureDisk": AzureDiskVolumeSource, "photonPersistentDisk": PhotonPersistentDiskVolumeSource,
    "portworxVolume": PortworxVolumeSource, "scaleIO": ScaleIOVolumeSource, "projected": ProjectedVolumeSource,
    "storageos": StorageOSVolumeSource, "csi": CSIVolumeSource, "ephemeral": EphemeralVolumeSource,
    "image": ImageVolumeSource}, total=False)
Container = TypedDict("Container", {"name": str, "image": str, "command": list[str], "args": list[str],
    "workingDir": str, "ports": list[ContainerPort], "env": list[EnvVar], "resources": ResourceRequirements,
    "volumeMounts": list[VolumeMount], "livenessProbe": Probe, "readinessProbe": Probe, "lifecycle": Lifecycle,
    "terminationMessagePath": str, "imagePullPolicy": str, "securityContext": SecurityContext, "stdin": bool,
    "stdinOnce": bool, "tty": bool, "envFrom": list[EnvFromSource], "terminationMessagePolicy": str,
    "volumeDevices": list[VolumeDevice], "startupProbe": Probe, "resizePolicy": list[ContainerResizePolicy],
    "restartPolicy": str, "restartPolicyRules": list[ContainerRestartRule]}, total=False)
PodSecurityContext = TypedDict("PodSecurityContext", {"seLinuxOptions": SELinuxOptions, "runAsUser": int,
    "runAsNonRoot": bool, "supplementalGroups": list[int], "fsGroup": int, "runAsGroup": int, "sysctls": list[Sysctl],
    "windowsOptions": WindowsSecurityContextOptions, "fsGroupChangePolicy": str, "seccompProfile": SeccompProfile,
    "appArmorProfile": AppArmorProfile, "supplementalGroupsPolicy": str, "seLinuxChangePolicy": str}, total=False)
LocalObjectReference = TypedDict("LocalObjectReference", {"name": str}, total=False)
Affinity = TypedDict("Affinity", {"nodeAffinity": NodeAffinity, "podAffinity": PodAffinity,
    "podAntiAffinity": PodAntiAffinity}, total=False)
Toleration = TypedDict("Toleration", {"key": str, "operator": str, "value": str, "effect": str,
    "tolerationSeconds": int}, total=False)
HostAlias = TypedDict("HostAlias", {"ip": str, "hostnames": list[str]}, total=False)
PodDNSConfig = TypedDict("PodDNSConfig", {"nameservers": list[str], "searches": list[str],
    "options": list[PodDNSConfigOption]}, total=False)
PodReadinessGate = TypedDict("PodReadinessGate", {"conditionType": str}, total=False)
TopologySpreadConstraint = TypedDict("TopologySpreadConstraint", {"maxSkew": int, "topologyKey": str,
    "whenUnsatisfiable": str, "labelSelector": LabelSelector, "minDomains": int, "nodeAffinityPolicy": str,
    "nodeTaintsPolicy": str, "matchLabelKeys": list[str]}, total=False)
EphemeralContainer = TypedDict("EphemeralContainer", {"name": str, "image": str, "command": list[str],
    "args": list[str], "workingDir": str, "ports": list[ContainerPort], "env": list[EnvVar],
    "resources": ResourceRequirements, "volumeMounts": list[VolumeMount], "livenessProbe": Probe,
    "readinessProbe": Probe, "lifecycle": Lifecycle, "terminationMessagePath": str, "imagePullPolicy": str,
    "securityContext": SecurityContext, "stdin": bool, "stdinOnce": bool, "tty": bool, "envFrom": list[EnvFromSource],
    "terminationMessagePolicy": str, "volumeDevices": list[VolumeDevice], "startupProbe": Probe,
    "resizePolicy": list[ContainerResizePolicy], "restartPolicy": str,
    "restartPolicyRules": list[ContainerRestartRule], "targetContainerName": str}, total=False)
PodOS = TypedDict("PodOS", {"name": str}, total=False)
PodSchedulingGate = TypedDict("PodSchedulingGate", {"name": str}, total=False)
PodResourceClaim = TypedDict("PodResourceClaim", {"name": str, "resourceClaimName": str,
    "resourceClaimTemplateName": str}, total=False)
ResourceRequirements = TypedDict("ResourceRequirements", {"limits": dict[str, str], "requests": dict[str, str],
    "claims": list[CoreResourceClaim]}, total=False)
PodSchedulingGroup = TypedDict("PodSchedulingGroup", {"podGroupName": str}, total=False)
PodCondition = TypedDict("PodCondition", {"type": str, "status": str, "lastProbeTime": str | None,
    "lastTransitionTime": str | None, "reason": str, "message": str, "observedGeneration": int}, total=False)
ContainerStatus = TypedDict("ContainerStatus", {"name": str, "state": ContainerState, "lastState": ContainerState,
    "ready": bool, "restartCount": int, "image": str, "imageID": str, "containerID": str, "started": bool,
    "allocatedResources": dict[str, str], "resources": ResourceRequirements, "volumeMounts": list[VolumeMountStatus],
    "user": ContainerUser, "allocatedResourcesStatus": list[ResourceStatus], "stopSignal": str}, total=False)
PodIP = TypedDict("PodIP", {"ip": str}, total=False)
PodResourceClaimStatus = TypedDict("PodResourceClaimStatus", {"name": str, "resourceClaimName": str}, total=False)
HostIP = TypedDict("HostIP", {"ip": str}, total=False)
PodExtendedResourceClaimStatus = TypedDict("PodExtendedResourceClaimStatus",
    {"requestMappings": list[ContainerExtendedResourceRequest], "resourceClaimName": str}, total=False)
NodeAllocatableResourceClaimStatus = TypedDict("NodeAllocatableResourceClaimStatus", {"resourceClaimName": str,
    "containers": list[str], "resources": dict[str, str]}, total=False)
ResourceStatus = TypedDict("ResourceStatus", {"name": str, "resources": list[ResourceHealth]}, total=False)
Taint = TypedDict("Taint", {"key": str, "value": str, "effect": str, "timeAdded": str}, total=False)
NodeConfigSource = TypedDict("NodeConfigSource", {"configMap": ConfigMapNodeConfigSource}, total=False)
NodeCondition = TypedDict("NodeCondition", {"type": str, "status": str, "lastHeartbeatTime": str | None,
    "lastTransitionTime": str | None, "reason": str, "message": str}, total=False)
NodeAddress = TypedDict("NodeAddress", {"type": str, "address": str}, total=False)
NodeDaemonEndpoints = TypedDict("NodeDaemonEndpoints", {"kubeletEndpoint": DaemonEndpoint}, total=False)
NodeSystemInfo = TypedDict("NodeSystemInfo", {"machineID": str, "systemUUID": str, "bootID": str,
    "kernelVersion": str, "osImage": str, "containerRuntimeVersion": str, "kubeletVersion": str,
    "kubeProxyVersion": str, "operatingSystem": str, "architecture": str, "swap": NodeSwapStatus}, total=False)
ContainerImage = TypedDict("ContainerImage", {"names": list[str] | None, "sizeBytes": int}, total=False)
AttachedVolume = TypedDict("AttachedVolume", {"name": str, "devicePath": str}, total=False)
NodeConfigStatus = TypedDict("NodeConfigStatus", {"assigned": NodeConfigSource, "active": NodeConfigSource,
    "lastKnownGood": NodeConfigSource, "error": str}, total=False)
NodeRuntimeHandler = TypedDict("NodeRuntimeHandler", {"name": str, "features": NodeRuntimeHandlerFeatures},
    total=False)
NodeFeatures = TypedDict("NodeFeatures", {"supplementalGroupsPolicy": bool}, total=False)
NamespaceCondition = TypedDict("NamespaceCondition", {"type": str, "status": str, "lastTransitionTime": str | None,
    "reason": str, "message": str}, total=False)
ServicePort = TypedDict("ServicePort", {"name": str, "protocol": str, "port": int, "targetPort": int | str,
    "nodePort": int, "appProtocol": str}, total=False)
SessionAffinityConfig = TypedDict("SessionAffinityConfig", {"clientIP": ClientIPConfig}, total=False)
LoadBalancerStatus = TypedDict("LoadBalancerStatus", {"ingress": list[LoadBalancerIngress]}, total=False)
Condition = TypedDict("Condition", {"type": str, "status": str, "observedGeneration": int, "lastTransitionTime": str,
    "reason": str, "message": str}, total=False)
VolumeResourceRequirements = TypedDict("VolumeResourceRequirements", {"limits": dict[str, str],
    "requests": dict[str, str]}, total=False)
LabelSelector = TypedDict("LabelSelector", {"matchLabels": dict[str, str],
    "matchExpressions": list[LabelSelectorRequirement]}, total=False)
TypedLocalObjectReference = TypedDict("TypedLocalObjectReference", {"apiGroup": str | None, "kind": str, "name": str},
    total=False)
TypedObjectReference = TypedDict("TypedObjectReference", {"apiGroup": str | None, "kind": str, "name": str,
    "namespace": str}, total=False)
PersistentVolumeClaimCondition = TypedDict("PersistentVolumeClaimCondition", {"type": str, "status": str,
    "lastProbeTime": str | None, "lastTransitionTime": str | None, "reason": str, "message": str}, total=False)
ModifyVolumeStatus = TypedDict("ModifyVolumeStatus", {"targetVolumeAttributesClassName": str, "status": str},
    total=False)
DeviceClaim = TypedDict("DeviceClaim", {"requests": list[DeviceRequest] | None, "constraints": list[DeviceConstraint],
    "config": list[DeviceClaimConfiguration]}, total=False)
AllocationResult = TypedDict("AllocationResult", {"devices": DeviceAllocationResult, "nodeSelector": NodeSelector,
    "allocationTimestamp": str}, total=False)
ResourceClaimConsumerReference = TypedDict("ResourceClaimConsumerReference", {"apiGroup": str, "resource": str,
    "name": str, "uid": str}, total=False)
AllocatedDeviceStatus = TypedDict("AllocatedDeviceStatus", {"driver": str, "pool": str, "device": str,
    "conditions": list[Condition] | None, "data": Any, "networkData": NetworkDeviceData, "shareID": str}, total=False)
ResourcePool = TypedDict("ResourcePool", {"name": str, "generation": int, "resourceSliceCount": int}, total=False)
NodeSelector = TypedDict("NodeSelector", {"nodeSelectorTerms": list[NodeSelectorTerm]}, total=False)
Device = TypedDict("Device", {"name": str, "attributes": dict[str, DeviceAttribute],
    "capacity": dict[str, DeviceCapacity], "consumesCounters": list[DeviceCounterConsumption], "nodeName": str,
    "nodeSelector": NodeSelector, "allNodes": bool, "taints": list[DeviceTaint], "bindsToNode": bool,
    "bindingConditions": list[str], "bindingFailureConditions": list[str], "allowMultipleAllocations": bool,
    "nodeAllocatableResourceMappings": dict[str, NodeAllocatableResourceMapping]}, total=False)
CounterSet = TypedDict("CounterSet", {"name": str, "counters": dict[str, Counter]}, total=False)
DeviceSelector = TypedDict("DeviceSelector", {"cel": CELDeviceSelector}, total=False)
DeviceClassConfiguration = TypedDict("DeviceClassConfiguration", {"opaque": OpaqueDeviceConfiguration}, total=False)
DevicePatch = TypedDict("DevicePatch", {"attributes": dict[str, NullableDeviceAttribute],
    "capacity": dict[str, DeviceCapacity], "filter": DevicePatchFilter, "priority": int, "taints": list[DeviceTaint]},
    total=False)
DeviceTaintSelector = TypedDict("DeviceTaintSelector", {"driver": str, "pool": str, "device": str}, total=False)
DeviceTaint = TypedDict("DeviceTaint", {"key": str, "value": str, "effect": str, "timeAdded": str}, total=False)
TopologySelectorLabelRequirement = TypedDict("TopologySelectorLabelRequirement", {"key": str, "values": list[str]},
    total=False)
HostPathVolumeSource = TypedDict("HostPathVolumeSource", {"path": str, "type": str}, total=False)
EmptyDirVolumeSource = TypedDict("EmptyDirVolumeSource", {"medium": str, "sizeLimit": str}, total=False)
GCEPersistentDiskVolumeSource = TypedDict("GCEPersistentDiskVolumeSource", {"pdName": str, "fsType": str,
    "partition": int, "readOnly": bool}, total=False)
AWSElasticBlockStoreVolumeSource = TypedDict("AWSElasticBlockStoreVolumeSource", {"volumeID": str, "fsType": str,
    "partition": int, "readOnly": bool}, total=False)
GitRepoVolumeSource = TypedDict("GitRepoVolumeSource", {"repository": str, "revision": str, "directory": str},
    total=False)
SecretVolumeSource = TypedDict("SecretVolumeSource", {"secretName": str, "items": list[KeyToPath], "defaultMode": int,
    "optional": bool}, total=False)
NFSVolumeSource = TypedDict("NFSVolumeSource", {"server": str, "path": str, "readOnly": bool}, total=False)
ISCSIVolumeSource = TypedDict("ISCSIVolumeSource", {"targetPortal": str, "iqn": str, "lun": int,
    "iscsiInterface": str, "fsType": str, "readOnly": bool, "portals": list[str], "chapAuthDiscovery": bool,
    "secretRef": LocalObjectReference, "chapAuthSession": bool, "initiatorName": str}, total=False)
GlusterfsVolumeSource = TypedDict("GlusterfsVolumeSource", {"endpoints": str, "path": str, "readOnly": bool},
    total=False)
PersistentVolumeClaimVolumeSource = TypedDict("PersistentVolumeClaimVolumeSource", {"claimName": str,
    "readOnly": bool}, total=False)
RBDVolumeSource = TypedDict("RBDVolumeSource", {"monitors": list[str], "image": str, "fsType": str, "pool": str,
    "user": str, "keyring": str, "secretRef": LocalObjectReference, "readOnly": bool}, total=False)
FlexVolumeSource = TypedDict("FlexVolumeSource", {"driver": str, "fsType": str, "secretRef": LocalObjectReference,
    "readOnly": bool, "options": dict[str, str]}, total=False)
CinderVolumeSource = TypedDict("CinderVolumeSource", {"volumeID": str, "fsType": str, "readOnly": bool,
    "secretRef": LocalObjectReference}, total=False)
CephFSVolumeSource = TypedDict("CephFSVolumeSource", {"monitors": list[str], "path": str, "user": str,
    "secretFile": str, "secretRef": LocalObjectReference, "readOnly": bool}, total=False)
FlockerVolumeSource = TypedDict("FlockerVolumeSource", {"datasetName": str, "datasetUUID": str}, total=False)
DownwardAPIVolumeSource = TypedDict("DownwardAPIVolumeSource", {"items": list[DownwardAPIVolumeFile],
    "defaultMode": int}, total=False)
FCVolumeSource = TypedDict("FCVolumeSource", {"targetWWNs": list[str], "lun": int, "fsType": str, "readOnly": bool,
    "wwids": list[str]}, total=False)
AzureFileVolumeSource = TypedDict("AzureFileVolumeSource", {"secretName": str, "shareName": str, "readOnly": bool},
    total=False)
ConfigMapVolumeSource = TypedDict("ConfigMapVolumeSource", {"name": str, "items": list[KeyToPath], "defaultMode": int,
    "optional": bool}, total=False)
VsphereVirtualDiskVolumeSource = TypedDict("VsphereVirtualDiskVolumeSource", {"volumePath": str, "fsType": str,
    "storagePolicyName": str, "storagePolicyID": str}, total=False)
QuobyteVolumeSource = TypedDict("QuobyteVolumeSource", {"registry": str, "volume": str, "readOnly": bool, "user": str,
    "group": str, "tenant": str}, total=False)
AzureDiskVolumeSource = TypedDict("AzureDiskVolumeSource", {"diskName": str, "diskURI": str, "cachingMode": str,
    "fsType": str, "readOnly": bool, "kind": str}, total=False)
PhotonPersistentDiskVolumeSource = TypedDict("PhotonPersistentDiskVolumeSource", {"pdID": str, "fsType": str},
    total=False)
PortworxVolumeSource = TypedDict("PortworxVolumeSource", {"volumeID": str, "fsType": str, "readOnly": bool},
    total=False)
ScaleIOVolumeSource = TypedDict("ScaleIOVolumeSource", {"gateway": str, "system": str,
    "secretRef": LocalObjectReference | None, "sslEnabled": bool, "protectionDomain": str, "storagePool": str,
    "storageMode": str, "volumeName": str, "fsType": str, "readOnly": bool}, total=False)
ProjectedVolumeSource = TypedDict("ProjectedVolumeSource", {"sources": list[VolumeProjection] | None,
    "defaultMode": int}, total=False)
StorageOSVolumeSource = TypedDict("StorageOSVolumeSource", {"volumeName": str, "volumeNamespace": str, "fsType": str,
    "readOnly": bool, "secretRef": LocalObjectReference}, total=False)
CSIVolumeSource = TypedDict("CSIVolumeSource", {"driver": str, "readOnly": bool, "fsType": str,
    "volumeAttributes": dict[str, str], "nodePublishSecretRef": LocalObjectReference}, total=False)
EphemeralVolumeSource = TypedDict("EphemeralVolumeSource", {"volumeClaimTemplate": PersistentVolumeClaimTemplate},
    total=False)
ImageVolumeSource = TypedDict("ImageVolumeSource", {"reference": str, "pullPolicy": str}, total=False)
ContainerPort = TypedDict("ContainerPort", {"name": str, "hostPort": int, "containerPort": int, "protocol": str,
    "hostIP": str}, total=False)
EnvVar = TypedDict("EnvVar", {"name": str, "value": str, "valueFrom": EnvVarSource}, total=False)
VolumeMount = TypedDict("VolumeMount", {"name": str, "readOnly": bool, "mountPath": str, "subPath": str,
    "mountPropagation": str, "subPathExpr": str, "recursiveReadOnly": str}, total=False)
Probe = TypedDict("Probe", {"exec": ExecAction, "httpGet": HTTPGetAction, "tcpSocket": TCPSocketAction,
    "grpc": GRPCAction, "initialDelaySeconds": int, "timeoutSeconds": int, "periodSeconds": int,
    "successThreshold": int, "failureThreshold": int, "terminationGracePeriodSeconds": int}, total=False)
Lifecycle = TypedDict("Lifecycle", {"postStart": LifecycleHandler, "preStop": LifecycleHandler, "stopSignal": str},
    total=False)
SecurityContext = TypedDict("SecurityContext", {"capabilities": Capabilities, "privileged": bool,
    "seLinuxOptions": SELinuxOptions, "runAsUser": int, "runAsNonRoot": bool, "readOnlyRootFilesystem": bool,
    "allowPrivilegeEscalation": bool, "runAsGroup": int, "procMount": str,
    "windowsOptions": WindowsSecurityContextOptions, "seccompProfile": SeccompProfile,
    "appArmorProfile": AppArmorProfile}, total=False)
EnvFromSource = TypedDict("EnvFromSource", {"prefix": str, "configMapRef": ConfigMapEnvSource,
    "secretRef": SecretEnvSource}, total=False)
VolumeDevice = TypedDict("VolumeDevice", {"name": str, "devicePath": str}, total=False)
ContainerResizePolicy = TypedDict("ContainerResizePolicy", {"resourceName": str, "restartPolicy": str}, total=False)
ContainerRestartRule = TypedDict("ContainerRestartRule", {"action": str,
    "exitCodes": ContainerRestartRuleOnExitCodes}, total=False)
SELinuxOptions = TypedDict("SELinuxOptions", {"user": str, "role": str, "type": str, "level": str}, total=False)
Sysctl = TypedDict("Sysctl", {"name": str, "value": str}, total=False)
WindowsSecurityContextOptions = TypedDict("WindowsSecurityContextOptions", {"gmsaCredentialSpecName": str,
    "gmsaCredentialSpec": str, "runAsUserName": str, "hostProcess": bool}, total=False)
SeccompProfile = TypedDict("SeccompProfile", {"type": str, "localhostProfile": str}, total=False)
AppArmorProfile = TypedDict("AppArmorProfile", {"type": str, "localhostProfile": str}, total=False)
NodeAffinity = TypedDict("NodeAffinity", {"requiredDuringSchedulingIgnoredDuringExecution": NodeSelector,
    "preferredDuringSchedulingIgnoredDuringExecution": list[PreferredSchedulingTerm]}, total=False)
PodAffinity = TypedDict("PodAffinity", {"requiredDuringSchedulingIgnoredDuringExecution": list[PodAffinityTerm],
    "preferredDuringSchedulingIgnoredDuringExecution": list[WeightedPodAffinityTerm]}, total=False)
PodAntiAffinity = TypedDict("PodAntiAffinity",
    {"requiredDuringSchedulingIgnoredDuringExecution": list[PodAffinityTerm],
    "preferredDuringSchedulingIgnoredDuringExecution": list[WeightedPodAffinityTerm]}, total=False)
PodDNSConfigOption = TypedDict("PodDNSConfigOption", {"name": str, "value": str}, total=False)
CoreResourceClaim = TypedDict("CoreResourceClaim", {"name": str, "request": str}, total=False)
ContainerState = TypedDict("ContainerState", {"waiting": ContainerStateWaiting, "running": ContainerStateRunning,
    "terminated": ContainerStateTerminated}, total=False)
VolumeMountStatus = TypedDict("VolumeMountStatus", {"name": str, "mountPath": str, "readOnly": bool,
    "recursiveReadOnly": str, "volumeStatus": VolumeStatus}, total=False)
ContainerUser = TypedDict("ContainerUser", {"linux": LinuxContainerUser}, total=False)
ContainerExtendedResourceRequest = TypedDict("ContainerExtendedResourceRequest", {"containerName": str,
    "resourceName": str, "requestName": str}, total=False)
ResourceHealth = TypedDict("ResourceHealth", {"resourceID": str, "health": str, "message": str}, total=False)
ConfigMapNodeConfigSource = TypedDict("ConfigMapNodeConfigSource", {"namespace": str, "name": str, "uid": str,
    "resourceVersion": str, "kubeletConfigKey": str}, total=False)
DaemonEndpoint = TypedDict("DaemonEndpoint", {"Port": int}, total=False)
NodeSwapStatus = TypedDict("NodeSwapStatus", {"capacity": int}, total=False)
NodeRuntimeHandlerFeatures = TypedDict("NodeRuntimeHandlerFeatures", {"recursiveReadOnlyMounts": bool,
    "userNamespaces": bool}, total=False)
ClientIPConfig = TypedDict("ClientIPConfig", {"timeoutSeconds": int}, total=False)
LoadBalancerIngress = TypedDict("LoadBalancerIngress", {"ip": str, "hostname": str, "ipMode": str,
    "ports": list[PortStatus]}, total=False)
LabelSelectorRequirement = TypedDict("LabelSelectorRequirement", {"key": str, "operator": str, "values": list[str]},
    total=False)
DeviceRequest = TypedDict("DeviceRequest", {"name": str, "exactly": ExactDeviceRequest,
    "firstAvailable": list[DeviceSubRequest]}, total=False)
DeviceConstraint = TypedDict("DeviceConstraint", {"requests": list[str], "matchAttribute": str,
    "distinctAttribute": str}, total=False)
DeviceClaimConfiguration = TypedDict("DeviceClaimConfiguration", {"requests": list[str],
    "opaque": OpaqueDeviceConfiguration}, total=False)
DeviceAllocationResult = TypedDict("DeviceAllocationResult", {"results": list[DeviceRequestAllocationResult],
    "config": list[DeviceAllocationConfiguration]}, total=False)
NetworkDeviceData = TypedDict("NetworkDeviceData", {"interfaceName": str, "ips": list[str], "hardwareAddress": str},
    total=False)
NodeSelectorTerm = TypedDict("NodeSelectorTerm", {"matchExpressions": list[NodeSelectorRequirement],
    "matchFields": list[NodeSelectorRequirement]}, total=False)
DeviceAttribute = TypedDict("DeviceAttribute", {"int": int, "bool": bool, "string": str, "version": str,
    "ints": list[int], "bools": list[bool], "strings": list[str], "versions": list[str]}, total=False)
DeviceCapacity = TypedDict("DeviceCapacity", {"value": str, "requestPolicy": CapacityRequestPolicy}, total=False)
DeviceCounterConsumption = TypedDict("DeviceCounterConsumption", {"counterSet": str, "counters": dict[str, Counter]},
    total=False)
NodeAllocatableResourceMapping = TypedDict("NodeAllocatableResourceMapping", {"capacityKey": str,
    "allocationMultiplier": str}, total=False)
Counter = TypedDict("Counter", {"value": str}, total=False)
CELDeviceSelector = TypedDict("CELDeviceSelector", {"expression": str}, total=False)
OpaqueDeviceConfiguration = TypedDict("OpaqueDeviceConfiguration", {"driver": str, "parameters": Any}, total=False)
NullableDeviceAttribute = TypedDict("NullableDeviceAttribute", {"bool": bool, "int": int, "null": NullValue,
    "string": str, "version": str}, total=False)
DevicePatchFilter = TypedDict("DevicePatchFilter", {"device": str, "deviceClassName": str, "driver": str, "pool": str,
    "selectors": list[DeviceSelector]}, total=False)
KeyToPath = TypedDict("KeyToPath", {"key": str, "path": str, "mode": int}, total=False)
DownwardAPIVolumeFile = TypedDict("DownwardAPIVolumeFile", {"path": str, "fieldRef": ObjectFieldSelector,
    "resourceFieldRef": ResourceFieldSelector, "mode": int}, total=False)
VolumeProjection = TypedDict("VolumeProjection", {"secret": SecretProjection, "downwardAPI": DownwardAPIProjection,
    "configMap": ConfigMapProjection, "serviceAccountToken": ServiceAccountTokenProjection,
    "clusterTrustBundle": ClusterTrustBundleProjection, "podCertificate": PodCertificateProjection}, total=False)
PersistentVolumeClaimTemplate = TypedDict("PersistentVolumeClaimTemplate", {"metadata": ObjectMeta,
    "spec": PersistentVolumeClaimSpec}, total=False)
EnvVarSource = TypedDict("EnvVarSource", {"fieldRef": ObjectFieldSelector, "resourceFieldRef": ResourceFieldSelector,
    "configMapKeyRef": ConfigMapKeySelector, "secretKeyRef": SecretKeySelector, "fileKeyRef": FileKeySelector},
    total=False)
ExecAction = TypedDict("ExecAction", {"command": list[str]}, total=False)
HTTPGetAction = TypedDict("HTTPGetAction", {"path": str, "port": int | str, "host": str, "scheme": str,
    "httpHeaders": list[HTTPHeader]}, total=False)
TCPSocketAction = TypedDict("TCPSocketAction", {"port": int | str, "host": str}, total=False)
GRPCAction = TypedDict("GRPCAction", {"port": int, "service": str | None}, total=False)
LifecycleHandler = TypedDict("LifecycleHandler", {"exec": ExecAction, "httpGet": HTTPGetAction,
    "tcpSocket": TCPSocketAction, "sleep": SleepAction}, total=False)
Capabilities = TypedDict("Capabilities", {"add": list[str], "drop": list[str]}, total=False)
ConfigMapEnvSource = TypedDict("ConfigMapEnvSource", {"name": str, "optional": bool}, total=False)
SecretEnvSource = TypedDict("SecretEnvSource", {"name": str, "optional": bool}, total=False)
ContainerRestartRuleOnExitCodes = TypedDict("ContainerRestartRuleOnExitCodes", {"operator": str, "values": list[int]},
    total=False)
PreferredSchedulingTerm = TypedDict("PreferredSchedulingTerm", {"weight": int, "preference": NodeSelectorTerm},
    total=False)
PodAffinityTerm = TypedDict("PodAffinityTerm", {"labelSelector": LabelSelector, "namespaces": list[str],
    "topologyKey": str, "namespaceSelector": LabelSelector, "matchLabelKeys": list[str],
    "mismatchLabelKeys": list[str]}, total=False)
WeightedPodAffinityTerm = TypedDict("WeightedPodAffinityTerm", {"weight": int, "podAffinityTerm": PodAffinityTerm},
    total=False)
ContainerStateWaiting = TypedDict("ContainerStateWaiting", {"reason": str, "message": str}, total=False)
ContainerStateRunning = TypedDict("ContainerStateRunning", {"startedAt": str | None}, total=False)
ContainerStateTerminated = TypedDict("ContainerStateTerminated", {"exitCode": int, "signal": int, "reason": str,
    "message": str, "startedAt": str | None, "finishedAt": str | None, "containerID": str}, total=False)
VolumeStatus = TypedDict("VolumeStatus", {"image": ImageVolumeStatus}, total=False)
LinuxContainerUser = TypedDict("LinuxContainerUser", {"uid": int, "gid": int, "supplementalGroups": list[int]},
    total=False)
PortStatus = TypedDict("PortStatus", {"port": int, "protocol": str, "error": str}, total=False)
ExactDeviceRequest = TypedDict("ExactDeviceRequest", {"deviceClassName": str, "selectors": list[DeviceSelector],
    "allocationMode": str, "count": int, "adminAccess": bool, "tolerations": list[DeviceToleration],
    "capacity": CapacityRequirements}, total=False)
DeviceSubRequest = TypedDict("DeviceSubRequest", {"name": str, "deviceClassName": str,
    "selectors": list[DeviceSelector], "allocationMode": str, "count": int, "tolerations": list[DeviceToleration],
    "capacity": CapacityRequirements}, total=False)
DeviceRequestAllocationResult = TypedDict("DeviceRequestAllocationResult", {"request": str, "driver": str,
    "pool": str, "device": str, "adminAccess": bool, "tolerations": list[DeviceToleration],
    "bindingConditions": list[str], "bindingFailureConditions": list[str], "shareID": str,
    "consumedCapacity": dict[str, str]}, total=False)
DeviceAllocationConfiguration = TypedDict("DeviceAllocationConfiguration", {"source": str, "requests": list[str],
    "opaque": OpaqueDeviceConfiguration}, total=False)
NodeSelectorRequirement = TypedDict("NodeSelectorRequirement", {"key": str, "operator": str, "values": list[str]},
    total=False)
CapacityRequestPolicy = TypedDict("CapacityRequestPolicy", {"default": str | None, "validValues": list[str],
    "validRange": CapacityRequestPolicyRange}, total=False)
NullValue = TypedDict("NullValue", {}, total=False)
ObjectFieldSelector = TypedDict("ObjectFieldSelector", {"apiVersion": str, "fieldPath": str}, total=False)
ResourceFieldSelector = TypedDict("ResourceFieldSelector", {"containerName": str, "resource": str, "divisor": str},
    total=False)
SecretProjection = TypedDict("SecretProjection", {"name": str, "items": list[KeyToPath], "optional": bool},
    total=False)
DownwardAPIProjection = TypedDict("DownwardAPIProjection", {"items": list[DownwardAPIVolumeFile]}, total=False)
ConfigMapProjection = TypedDict("ConfigMapProjection", {"name": str, "items": list[KeyToPath], "optional": bool},
    total=False)
ServiceAccountTokenProjection = TypedDict("ServiceAccountTokenProjection", {"audience": str, "expirationSeconds": int,
    "path": str}, total=False)
ClusterTrustBundleProjection = TypedDict("ClusterTrustBundleProjection", {"name": str, "signerName": str,
    "labelSelector": LabelSelector, "path": str, "optional": bool}, total=False)
PodCertificateProjection = TypedDict("PodCertificateProjection", {"signerName": str, "keyType": str,
    "maxExpirationSeconds": int, "credentialBundlePath": str, "keyPath": str, "certificateChainPath": str,
    "userAnnotations": dict[str, str]}, total=False)
ConfigMapKeySelector = TypedDict("ConfigMapKeySelector", {"name": str, "key": str, "optional": bool}, total=False)
SecretKeySelector = TypedDict("SecretKeySelector", {"name": str, "key": str, "optional": bool}, total=False)
FileKeySelector = TypedDict("FileKeySelector", {"volumeName": str, "path": str, "key": str, "optional": bool},
    total=False)
HTTPHeader = TypedDict("HTTPHeader", {"name": str, "value": str}, total=False)
SleepAction = TypedDict("SleepAction", {"seconds": int}, total=False)
ImageVolumeStatus = TypedDict("ImageVolumeStatus", {"imageRef": str}, total=False)
DeviceToleration = TypedDict("DeviceToleration", {"key": str, "operator": str, "value": str, "effect": str,
    "tolerationSeconds": int}, total=False)
CapacityRequirements = TypedDict("CapacityRequirements", {"requests": dict[str, str]}, total=False)
CapacityRequestPolicyRange = TypedDict("CapacityRequestPolicyRange", {"min": str, "max": str, "step": str},
    total=False)
