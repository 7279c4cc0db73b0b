"""Zero values of the kinds' fields, as Go's encoder writes them: a part of what a client of kube-apiserver sees.

Notation: `Name: field ... ?field ...`. The first fields are always present: an absent one has the zero value of its
type, which is null for lists, maps and times, and for a `field-`, a pointer. The fields behind `?` are optional and
keep a zero that was sent. Of all other fields, a zero is as good as absent, and is removed.
"""

META = """
Condition: status lastTransitionTime message reason type
DeleteOptions: ?gracePeriodSeconds ?ignoreStoreReadErrorWithClusterBreakingPotential ?orphanDependents
    ?propagationPolicy
FieldSelectorRequirement: key operator
LabelSelectorRequirement: key operator
ObjectMeta: ?deletionGracePeriodSeconds
OwnerReference: apiVersion kind name uid ?blockOwnerDeletion ?controller
Preconditions: ?resourceVersion ?uid
"""

APIEXTENSIONS_V1 = """
CustomResourceColumnDefinition: jsonPath name type
CustomResourceConversion: strategy
CustomResourceDefinition: metadata spec status
CustomResourceDefinitionCondition: lastTransitionTime status type
CustomResourceDefinitionNames: kind plural
CustomResourceDefinitionSpec: group names scope versions
CustomResourceDefinitionStatus: acceptedNames conditions storedVersions
CustomResourceDefinitionVersion: name served storage ?deprecationWarning
CustomResourceSubresourceScale: specReplicasPath statusReplicasPath ?labelSelectorPath
JSONSchemaProps: ?$ref ?dependencies ?maxItems ?maxLength ?maxProperties ?minItems ?minLength ?minProperties
    ?x-kubernetes-list-type ?x-kubernetes-map-type ?x-kubernetes-preserve-unknown-fields
SelectableField: jsonPath
ServiceReference: name namespace ?path ?port
ValidationRule: rule ?optionalOldSelf ?reason
WebhookClientConfig: ?url
WebhookConversion: conversionReviewVersions
"""

APPS_V1 = """
ControllerRevision: metadata data revision
DaemonSet: metadata spec status
DaemonSetCondition: lastTransitionTime status type
DaemonSetSpec: selector- template updateStrategy ?revisionHistoryLimit
DaemonSetStatus: currentNumberScheduled desiredNumberScheduled numberMisscheduled numberReady ?collisionCount
Deployment: metadata spec status
DeploymentCondition: lastTransitionTime lastUpdateTime status type
DeploymentSpec: selector- strategy template ?progressDeadlineSeconds ?replicas ?revisionHistoryLimit
DeploymentStatus: ?collisionCount ?terminatingReplicas
ReplicaSet: metadata spec status
ReplicaSetCondition: lastTransitionTime status type
ReplicaSetSpec: selector- template ?replicas
ReplicaSetStatus: replicas ?terminatingReplicas
RollingUpdateDaemonSet: ?maxSurge ?maxUnavailable
RollingUpdateDeployment: ?maxSurge ?maxUnavailable
RollingUpdateStatefulSetStrategy: ?maxUnavailable ?partition
StatefulSet: metadata spec status
StatefulSetCondition: lastTransitionTime status type
StatefulSetOrdinals: start
StatefulSetSpec: selector- serviceName template updateStrategy ?replicas ?revisionHistoryLimit
StatefulSetStatus: availableReplicas replicas ?collisionCount
"""

BATCH_V1 = """
CronJob: metadata spec status
CronJobSpec: jobTemplate schedule ?failedJobsHistoryLimit ?startingDeadlineSeconds ?successfulJobsHistoryLimit
    ?suspend ?timeZone
Job: metadata spec status
JobCondition: lastProbeTime lastTransitionTime status type
JobSpec: template ?activeDeadlineSeconds ?backoffLimit ?backoffLimitPerIndex ?completionMode ?completions ?managedBy
    ?manualSelector ?maxFailedIndexes ?parallelism ?podReplacementPolicy ?suspend ?ttlSecondsAfterFinished
JobStatus: ?failedIndexes ?ready ?terminating
JobTemplateSpec: metadata spec
PodFailurePolicy: rules
PodFailurePolicyOnExitCodesRequirement: operator values ?containerName
PodFailurePolicyOnPodConditionsPattern: status type
PodFailurePolicyRule: action
SuccessPolicy: rules
SuccessPolicyRule: ?succeededCount ?succeededIndexes
"""

AUTHENTICATION_V1 = """
SelfSubjectReview: metadata status
SelfSubjectReviewStatus: userInfo
TokenRequest: metadata spec status
TokenRequestSpec: audiences boundObjectRef- expirationSeconds-
TokenRequestStatus: expirationTimestamp token
TokenReview: metadata spec status
TokenReviewStatus: user
"""

AUTHORIZATION_V1 = """
LocalSubjectAccessReview: metadata spec status
NonResourceRule: verbs
ResourceRule: verbs
SelfSubjectAccessReview: metadata spec status
SelfSubjectRulesReview: metadata spec status
SubjectAccessReview: metadata spec status
SubjectAccessReviewStatus: allowed
SubjectRulesReviewStatus: incomplete nonResourceRules resourceRules
"""

AUTOSCALING_V1 = """
Scale: metadata spec status
ScaleStatus: replicas
"""

COORDINATION_V1 = """
Lease: metadata spec
LeaseSpec: ?holderIdentity ?leaseDurationSeconds ?leaseTransitions ?preferredHolder ?strategy
"""

CORE_V1 = """
PodTemplate: metadata template
PodTemplateSpec: metadata spec
ReplicationController: metadata spec status
ReplicationControllerCondition: lastTransitionTime status type
ReplicationControllerSpec: ?replicas
ReplicationControllerStatus: replicas
AWSElasticBlockStoreVolumeSource: volumeID
AppArmorProfile: type ?localhostProfile
AttachedVolume: devicePath name
AzureDiskVolumeSource: diskName diskURI ?kind ?cachingMode ?fsType ?readOnly
AzureFilePersistentVolumeSource: secretName secretNamespace- shareName
AzureFileVolumeSource: secretName shareName
Binding: metadata target
CSIPersistentVolumeSource: driver volumeHandle
CSIVolumeSource: driver ?fsType ?readOnly
CephFSPersistentVolumeSource: monitors
CephFSVolumeSource: monitors
CinderPersistentVolumeSource: volumeID
CinderVolumeSource: volumeID
ClientIPConfig: ?timeoutSeconds
ClusterTrustBundleProjection: path ?name ?optional ?signerName
ConfigMap: metadata ?immutable
ConfigMapEnvSource: ?optional
ConfigMapKeySelector: key ?optional
ConfigMapNodeConfigSource: kubeletConfigKey name namespace
ConfigMapProjection: ?optional
ConfigMapVolumeSource: ?defaultMode ?optional
Container: name resources ?restartPolicy
ContainerExtendedResourceRequest: containerName requestName resourceName
ContainerImage: names
ContainerPort: containerPort
ContainerResizePolicy: resourceName restartPolicy
ContainerStateRunning: startedAt
ContainerStateTerminated: exitCode finishedAt startedAt
ContainerStatus: image imageID lastState name ready restartCount state ?started ?stopSignal
DaemonEndpoint: Port
DownwardAPIVolumeFile: path ?mode
DownwardAPIVolumeSource: ?defaultMode
EndpointAddress: ip ?nodeName
EndpointPort: port ?appProtocol
Endpoints: metadata
EnvVar: name
EphemeralContainer: name resources ?restartPolicy
Event: metadata eventTime firstTimestamp involvedObject lastTimestamp reportingComponent reportingInstance source
EventSeries: lastObservedTime
FCVolumeSource: ?lun
FileKeySelector: key path volumeName ?optional
FlexPersistentVolumeSource: driver
FlexVolumeSource: driver
GCEPersistentDiskVolumeSource: pdName
GRPCAction: port service-
GitRepoVolumeSource: repository
GlusterfsPersistentVolumeSource: endpoints path ?endpointsNamespace
GlusterfsVolumeSource: endpoints path
HTTPGetAction: port
HTTPHeader: name value
HostAlias: ip
HostIP: ip
HostPathVolumeSource: path ?type
ISCSIPersistentVolumeSource: iqn lun targetPortal ?initiatorName
ISCSIVolumeSource: iqn lun targetPortal ?initiatorName
KeyToPath: key path ?mode
Lifecycle: ?stopSignal
LimitRange: metadata spec
LimitRangeItem: type
LimitRangeSpec: limits
LinuxContainerUser: gid uid
LoadBalancerIngress: ?ipMode
LocalVolumeSource: path ?fsType
ModifyVolumeStatus: status
NFSVolumeSource: path server
Namespace: metadata spec status
NamespaceCondition: status lastTransitionTime type
Node: metadata spec status
NodeAddress: address type
NodeAllocatableResourceClaimStatus: resourceClaimName resources
NodeCondition: status lastHeartbeatTime lastTransitionTime type
NodeDaemonEndpoints: kubeletEndpoint
NodeFeatures: ?supplementalGroupsPolicy
NodeRuntimeHandler: name
NodeRuntimeHandlerFeatures: ?recursiveReadOnlyMounts ?userNamespaces
NodeSelector: nodeSelectorTerms
NodeSelectorRequirement: key operator
NodeStatus: daemonEndpoints nodeInfo
NodeSwapStatus: ?capacity
NodeSystemInfo: architecture bootID containerRuntimeVersion kernelVersion kubeProxyVersion kubeletVersion machineID
    operatingSystem osImage systemUUID
ObjectFieldSelector: fieldPath
PersistentVolume: metadata spec status
PersistentVolumeClaim: metadata spec status
PersistentVolumeClaimCondition: lastProbeTime lastTransitionTime status type
PersistentVolumeClaimSpec: resources ?storageClassName ?volumeAttributesClassName ?volumeMode
PersistentVolumeClaimStatus: ?currentVolumeAttributesClassName
PersistentVolumeClaimTemplate: metadata spec
PersistentVolumeClaimVolumeSource: claimName
PersistentVolumeSpec: ?volumeAttributesClassName ?volumeMode
PhotonPersistentDiskVolumeSource: pdID
Pod: metadata spec status
PodAffinityTerm: topologyKey
PodCertificateProjection: ?maxExpirationSeconds
PodCondition: status lastProbeTime lastTransitionTime type
PodDNSConfigOption: ?value
PodExtendedResourceClaimStatus: requestMappings resourceClaimName
PodIP: ip
PodOS: name
PodReadinessGate: conditionType
PodResourceClaim: name ?resourceClaimName ?resourceClaimTemplateName
PodResourceClaimStatus: name ?resourceClaimName
PodSchedulingGate: name
PodSchedulingGroup: ?podGroupName
PodSecurityContext: ?fsGroup ?fsGroupChangePolicy ?runAsGroup ?runAsNonRoot ?runAsUser ?seLinuxChangePolicy
    ?supplementalGroupsPolicy
PodSpec: containers ?activeDeadlineSeconds ?automountServiceAccountToken ?enableServiceLinks ?hostUsers
    ?hostnameOverride ?preemptionPolicy ?priority ?runtimeClassName ?setHostnameAsFQDN ?shareProcessNamespace
    ?terminationGracePeriodSeconds
PortStatus: port protocol ?error
PortworxVolumeSource: volumeID
PreferredSchedulingTerm: preference weight
Probe: ?terminationGracePeriodSeconds
ProjectedVolumeSource: sources ?defaultMode
QuobyteVolumeSource: registry volume
RBDPersistentVolumeSource: image monitors
RBDVolumeSource: image monitors
ResourceClaim: name
ResourceFieldSelector: divisor resource
ResourceHealth: resourceID ?message
ResourceStatus: name
ResourceQuota: metadata spec status
ScaleIOPersistentVolumeSource: gateway secretRef- system
ScaleIOVolumeSource: gateway secretRef- system
ScopedResourceSelectorRequirement: operator scopeName
SeccompProfile: type ?localhostProfile
Secret: metadata ?immutable
SecretEnvSource: ?optional
SecretKeySelector: key ?optional
SecretProjection: ?optional
SecretVolumeSource: ?defaultMode ?optional
SecurityContext: ?allowPrivilegeEscalation ?privileged ?procMount ?readOnlyRootFilesystem ?runAsGroup ?runAsNonRoot
    ?runAsUser
Service: metadata spec status
ServiceAccount: metadata ?automountServiceAccountToken
ServiceAccountTokenProjection: path ?expirationSeconds
ServicePort: port ?appProtocol
ServiceSpec: ?allocateLoadBalancerNodePorts ?internalTrafficPolicy ?ipFamilyPolicy ?loadBalancerClass
    ?trafficDistribution
ServiceStatus: loadBalancer
SleepAction: seconds
Sysctl: name value
TCPSocketAction: port
Taint: effect key
Toleration: ?tolerationSeconds
TopologySelectorLabelRequirement: key values
TopologySpreadConstraint: maxSkew topologyKey whenUnsatisfiable ?minDomains ?nodeAffinityPolicy ?nodeTaintsPolicy
TypedLocalObjectReference: kind apiGroup- name
TypedObjectReference: kind apiGroup- name ?namespace
Volume: name
VolumeDevice: devicePath name
VolumeMount: mountPath name ?mountPropagation ?recursiveReadOnly
VolumeMountStatus: mountPath name ?recursiveReadOnly
VsphereVirtualDiskVolumeSource: volumePath
WeightedPodAffinityTerm: podAffinityTerm weight
WindowsSecurityContextOptions: ?gmsaCredentialSpec ?gmsaCredentialSpecName ?hostProcess ?runAsUserName
"""

DISCOVERY_V1 = """
Endpoint: addresses conditions ?hostname ?nodeName ?zone
EndpointConditions: ?ready ?serving ?terminating
EndpointPort: ?appProtocol ?name ?port ?protocol
EndpointSlice: addressType endpoints metadata ports
ForNode: name
ForZone: name
"""

EVENTS_V1 = """
Event: metadata deprecatedFirstTimestamp deprecatedLastTimestamp deprecatedSource eventTime regarding
EventSeries: count lastObservedTime
"""

NETWORKING_V1 = """
IPAddress: metadata spec
ServiceCIDR: metadata spec status
IPBlock: cidr
NetworkPolicy: metadata spec
NetworkPolicyPort: ?endPort ?port ?protocol
NetworkPolicySpec: podSelector
"""

NODE_V1 = """
RuntimeClass: handler metadata
"""

POLICY_V1 = """
Eviction: metadata
PodDisruptionBudget: metadata spec status
PodDisruptionBudgetSpec: ?maxUnavailable ?minAvailable ?unhealthyPodEvictionPolicy
PodDisruptionBudgetStatus: currentHealthy desiredHealthy disruptionsAllowed expectedPods
"""

RBAC_V1 = """
ClusterRole: metadata rules
ClusterRoleBinding: metadata roleRef
PolicyRule: verbs
Role: metadata rules
RoleBinding: metadata roleRef
RoleRef: kind apiGroup name
Subject: kind name
"""

RESOURCE_V1 = """
AllocatedDeviceStatus: conditions device driver pool ?shareID
AllocationResult: devices
CELDeviceSelector: expression
CapacityRequestPolicy: default-
Counter: value
CounterSet: name
Device: name ?allNodes ?allowMultipleAllocations ?bindsToNode ?nodeName
DeviceAllocationConfiguration: source
DeviceAttribute: ?bool ?int ?string ?version
DeviceCapacity: value
DeviceClaim: requests
DeviceClass: metadata spec
DeviceClassSpec: ?extendedResourceName
DeviceConstraint: ?distinctAttribute ?matchAttribute
DeviceCounterConsumption: counterSet
DeviceRequest: name
DeviceRequestAllocationResult: device driver pool request ?adminAccess ?shareID
DeviceSubRequest: deviceClassName name
DeviceTaint: effect key
DeviceToleration: ?tolerationSeconds
ExactDeviceRequest: deviceClassName ?adminAccess
NodeAllocatableResourceMapping: ?capacityKey
OpaqueDeviceConfiguration: driver parameters
ResourceClaim: metadata spec status
ResourceClaimConsumerReference: name resource uid
ResourceClaimSpec: devices
ResourceClaimTemplate: metadata spec
ResourceClaimTemplateSpec: metadata spec
ResourcePool: generation name resourceSliceCount
ResourceSlice: metadata spec
ResourceSliceSpec: driver pool ?allNodes ?nodeName ?perDeviceNodeSelection
"""

RESOURCE_V1ALPHA3 = """
DevicePatch: ?priority
DevicePatchFilter: ?device ?deviceClassName ?driver ?pool
NullableDeviceAttribute: ?bool ?int ?string ?version
ResourceSlicePatch: metadata spec
DeviceTaintRule: metadata spec status
DeviceTaintRuleSpec: taint
DeviceTaintSelector: ?device ?driver ?pool
"""

_RESOURCE_V1BETA1 = """
BasicDevice: ?allNodes ?allowMultipleAllocations ?bindsToNode ?nodeName
Device: name
DeviceRequest: deviceClassName name ?adminAccess
ResourceSliceSpec: driver pool ?perDeviceNodeSelection
"""

RESOURCE_V1BETA1 = RESOURCE_V1 + _RESOURCE_V1BETA1.removeprefix("\n")

_RESOURCE_V1BETA2 = """
DeviceTaintRule: metadata spec status
DeviceTaintRuleSpec: taint
DeviceTaintSelector: ?device ?driver ?pool
"""

RESOURCE_V1BETA2 = RESOURCE_V1 + _RESOURCE_V1BETA2.removeprefix("\n")

SCHEDULING_V1 = """
PriorityClass: metadata value ?preemptionPolicy
"""

STORAGE_V1 = """
CSIStorageCapacity: metadata storageClassName
VolumeAttachment: metadata spec status
VolumeAttachmentSource: ?persistentVolumeName
VolumeAttachmentSpec: attacher nodeName source
VolumeAttachmentStatus: attached
VolumeError: time ?errorCode
CSIDriver: metadata spec
CSIDriverSpec: ?attachRequired ?fsGroupPolicy ?nodeAllocatableUpdatePeriodSeconds ?podInfoOnMount
    ?preventPodSchedulingIfMissing ?requiresRepublish ?seLinuxMount ?serviceAccountTokenInSecrets ?storageCapacity
CSINode: metadata spec
CSINodeDriver: name nodeID topologyKeys
CSINodeSpec: drivers
VolumeAttributesClass: metadata driverName
StorageClass: metadata provisioner ?allowVolumeExpansion ?reclaimPolicy ?volumeBindingMode
TokenRequest: audience ?expirationSeconds
VolumeNodeResources: ?count
"""

ZEROS = {
    "io.k8s.apimachinery.pkg.apis.meta.v1": META,
    "io.k8s.api.apiextensions.v1": APIEXTENSIONS_V1,
    "io.k8s.api.apps.v1": APPS_V1,
    "io.k8s.api.authentication.v1": AUTHENTICATION_V1,
    "io.k8s.api.authorization.v1": AUTHORIZATION_V1,
    "io.k8s.api.autoscaling.v1": AUTOSCALING_V1,
    "io.k8s.api.batch.v1": BATCH_V1,
    "io.k8s.api.coordination.v1": COORDINATION_V1,
    "io.k8s.api.core.v1": CORE_V1,
    "io.k8s.api.discovery.v1": DISCOVERY_V1,
    "io.k8s.api.events.v1": EVENTS_V1,
    "io.k8s.api.networking.v1": NETWORKING_V1,
    "io.k8s.api.node.v1": NODE_V1,
    "io.k8s.api.policy.v1": POLICY_V1,
    "io.k8s.api.rbac.v1": RBAC_V1,
    "io.k8s.api.resource.v1": RESOURCE_V1,
    "io.k8s.api.resource.v1alpha3": RESOURCE_V1ALPHA3,
    "io.k8s.api.resource.v1beta1": RESOURCE_V1BETA1,
    "io.k8s.api.resource.v1beta2": RESOURCE_V1BETA2,
    "io.k8s.api.scheduling.v1": SCHEDULING_V1,
    "io.k8s.api.storage.v1": STORAGE_V1,
}
