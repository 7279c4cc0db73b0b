"""Schemas of metadata, extensions, cluster resources and the remaining groups."""

META = """
DeleteOptions+: dryRun:[str] gracePeriodSeconds:int64 ignoreStoreReadErrorWithClusterBreakingPotential:bool
    orphanDependents:bool preconditions:Preconditions propagationPolicy:str
Preconditions: resourceVersion:str uid:str
ObjectMeta: annotations:{str} creationTimestamp:time deletionGracePeriodSeconds:int64 deletionTimestamp:time
    finalizers:[str]=set generateName:str generation:int64 labels:{str} managedFields:[ManagedFieldsEntry] name:str
    namespace:str ownerReferences:[OwnerReference]=uid resourceVersion:str selfLink:str uid:str
ManagedFieldsEntry: apiVersion:str fieldsType:str fieldsV1:any manager:str operation:str subresource:str time:time
OwnerReference*: apiVersion!:str kind!:str blockOwnerDeletion:bool controller:bool name!:str uid!:str
Condition: status!:str lastTransitionTime!:time message!:str observedGeneration:int64 reason!:str type!:str
LabelSelector*: matchExpressions:[LabelSelectorRequirement] matchLabels:{str}
LabelSelectorRequirement: key!:str operator!:str values:[str]
FieldSelectorRequirement: key!:str operator!:str values:[str]
"""


EXTENSIONS = """
CustomResourceDefinition+: metadata:meta.ObjectMeta spec!:CustomResourceDefinitionSpec
    status:CustomResourceDefinitionStatus
CustomResourceDefinitionSpec: conversion:CustomResourceConversion group!:str names!:CustomResourceDefinitionNames
    preserveUnknownFields:bool scope!:str versions!:[CustomResourceDefinitionVersion]
CustomResourceDefinitionStatus: acceptedNames:CustomResourceDefinitionNames
    conditions:[CustomResourceDefinitionCondition]=type^none observedGeneration:int64 storedVersions:[str]
CustomResourceConversion: strategy!:str webhook:WebhookConversion
CustomResourceDefinitionNames: categories:[str] kind!:str listKind:str plural!:str shortNames:[str] singular:str
CustomResourceDefinitionVersion: additionalPrinterColumns:[CustomResourceColumnDefinition] deprecated:bool
    deprecationWarning:str name!:str schema:CustomResourceValidation selectableFields:[SelectableField] served!:bool
    storage!:bool subresources:CustomResourceSubresources
CustomResourceDefinitionCondition: lastTransitionTime:time message:str observedGeneration:int64 reason:str status!:str
    type!:str
WebhookConversion: clientConfig:WebhookClientConfig conversionReviewVersions!:[str]
CustomResourceColumnDefinition: description:str format:str jsonPath!:str name!:str priority:int32 type!:str
CustomResourceValidation: openAPIV3Schema:JSONSchemaProps
SelectableField: jsonPath!:str
CustomResourceSubresources: scale:CustomResourceSubresourceScale status:any
WebhookClientConfig: caBundle:bytes service:ServiceReference url:str
JSONSchemaProps: $ref:str $schema:str additionalItems:json additionalProperties:json allOf:[JSONSchemaProps]
    anyOf:[JSONSchemaProps] default:json definitions:{JSONSchemaProps} dependencies:{json} description:str enum:[json]
    example:json exclusiveMaximum:bool exclusiveMinimum:bool externalDocs:ExternalDocumentation format:str id:str
    items:json maxItems:int64 maxLength:int64 maxProperties:int64 maximum:json minItems:int64
    minLength:int64 minProperties:int64 minimum:json multipleOf:json not:JSONSchemaProps nullable:bool
    oneOf:[JSONSchemaProps] pattern:str patternProperties:{JSONSchemaProps} properties:{JSONSchemaProps}
    required:[str] title:str type:str uniqueItems:bool x-kubernetes-embedded-resource:bool
    x-kubernetes-int-or-string:bool x-kubernetes-list-map-keys:[str] x-kubernetes-list-type:str
    x-kubernetes-map-type:str x-kubernetes-preserve-unknown-fields:bool x-kubernetes-validations:[ValidationRule]=rule
CustomResourceSubresourceScale: labelSelectorPath:str specReplicasPath!:str statusReplicasPath!:str
ServiceReference: name!:str namespace!:str path:str port:int32
ExternalDocumentation: description:str url:str
ValidationRule: fieldPath:str message:str messageExpression:str optionalOldSelf:bool reason:str rule!:str
"""

AUTOSCALING = """
Scale+: metadata:meta.ObjectMeta spec:ScaleSpec status:ScaleStatus
ScaleSpec: replicas:int32
ScaleStatus: replicas!:int32 selector:str
"""


AUTHENTICATION = """
SelfSubjectReview+: metadata:meta.ObjectMeta status:SelfSubjectReviewStatus
TokenRequest+: metadata:meta.ObjectMeta spec:TokenRequestSpec status:TokenRequestStatus
TokenReview+: metadata:meta.ObjectMeta spec!:TokenReviewSpec status:TokenReviewStatus
SelfSubjectReviewStatus: userInfo:UserInfo
TokenRequestSpec: audiences:[str] boundObjectRef:BoundObjectReference expirationSeconds:int64
TokenRequestStatus: expirationTimestamp:time token:str
TokenReviewSpec: audiences:[str] token!:str
TokenReviewStatus: audiences:[str] authenticated:bool error:str user:UserInfo
UserInfo: extra:{[str]} groups:[str] uid:str username:str
BoundObjectReference: apiVersion:str kind:str name:str uid:str
"""

AUTHORIZATION = """
LocalSubjectAccessReview+: metadata:meta.ObjectMeta spec!:SubjectAccessReviewSpec status:SubjectAccessReviewStatus
SelfSubjectAccessReview+: metadata:meta.ObjectMeta spec!:SelfSubjectAccessReviewSpec status:SubjectAccessReviewStatus
SelfSubjectRulesReview+: metadata:meta.ObjectMeta spec!:SelfSubjectRulesReviewSpec status:SubjectRulesReviewStatus
SubjectAccessReview+: metadata:meta.ObjectMeta spec!:SubjectAccessReviewSpec status:SubjectAccessReviewStatus
SubjectAccessReviewSpec: extra:{[str]} groups:[str] nonResourceAttributes:NonResourceAttributes
    resourceAttributes:ResourceAttributes uid:str user:str
SubjectAccessReviewStatus: allowed!:bool denied:bool evaluationError:str reason:str
SelfSubjectAccessReviewSpec: nonResourceAttributes:NonResourceAttributes resourceAttributes:ResourceAttributes
SelfSubjectRulesReviewSpec: namespace:str
SubjectRulesReviewStatus: evaluationError:str incomplete!:bool nonResourceRules!:[NonResourceRule]
    resourceRules!:[ResourceRule]
NonResourceAttributes: path:str verb:str
ResourceAttributes: fieldSelector:FieldSelectorAttributes group:str labelSelector:LabelSelectorAttributes name:str
    namespace:str resource:str subresource:str verb:str version:str
NonResourceRule: nonResourceURLs:[str] verbs!:[str]
ResourceRule: apiGroups:[str] resourceNames:[str] resources:[str] verbs!:[str]
FieldSelectorAttributes: rawSelector:str requirements:[meta.FieldSelectorRequirement]
LabelSelectorAttributes: rawSelector:str requirements:[meta.LabelSelectorRequirement]
"""

COORDINATION = """
Lease+: metadata:meta.ObjectMeta spec:LeaseSpec
LeaseSpec: acquireTime:microtime holderIdentity:str leaseDurationSeconds:int32 leaseTransitions:int32
    preferredHolder:str renewTime:microtime strategy:str
"""

EVENTS = """
Event+: metadata:meta.ObjectMeta action:str deprecatedCount:int32 deprecatedFirstTimestamp:time
    deprecatedLastTimestamp:time deprecatedSource:core.EventSource eventTime!:microtime note:str reason:str
    regarding:core.ObjectReference related:core.ObjectReference reportingController:str reportingInstance:str
    series:EventSeries type:str
EventSeries: count!:int32 lastObservedTime!:microtime
"""

NETWORKING = """
NetworkPolicy+: metadata:meta.ObjectMeta spec:NetworkPolicySpec
NetworkPolicySpec: egress:[NetworkPolicyEgressRule] ingress:[NetworkPolicyIngressRule] podSelector:meta.LabelSelector
    policyTypes:[str]
NetworkPolicyEgressRule: ports:[NetworkPolicyPort] to:[NetworkPolicyPeer]
NetworkPolicyIngressRule: from:[NetworkPolicyPeer] ports:[NetworkPolicyPort]
NetworkPolicyPort: endPort:int32 port:int-or-string protocol:str
NetworkPolicyPeer: ipBlock:IPBlock namespaceSelector:meta.LabelSelector podSelector:meta.LabelSelector
IPBlock: cidr!:str except:[str]
"""

POLICY = """
Eviction+: metadata:meta.ObjectMeta deleteOptions:meta.DeleteOptions
PodDisruptionBudget+: metadata:meta.ObjectMeta spec:PodDisruptionBudgetSpec status:PodDisruptionBudgetStatus
PodDisruptionBudgetSpec: maxUnavailable:int-or-string minAvailable:int-or-string selector:meta.LabelSelector^replace
    unhealthyPodEvictionPolicy:str
PodDisruptionBudgetStatus: conditions:[meta.Condition]=type currentHealthy:int32 desiredHealthy:int32
    disruptedPods:{time} disruptionsAllowed:int32 expectedPods:int32 observedGeneration:int64
"""

RBAC = """
ClusterRole+: metadata:meta.ObjectMeta aggregationRule:AggregationRule rules:[PolicyRule]
ClusterRoleBinding+: metadata:meta.ObjectMeta roleRef!:RoleRef subjects:[Subject]
Role+: metadata:meta.ObjectMeta rules:[PolicyRule]
RoleBinding+: metadata:meta.ObjectMeta roleRef!:RoleRef subjects:[Subject]
AggregationRule: clusterRoleSelectors:[meta.LabelSelector]
PolicyRule: apiGroups:[str] nonResourceURLs:[str] resourceNames:[str] resources:[str] verbs!:[str]
RoleRef*: kind!:str apiGroup:str name!:str
Subject*: kind!:str apiGroup:str name!:str namespace:str
"""

METRICS = """
NodeMetrics+: metadata:meta.ObjectMeta timestamp!:time usage!:{quantity} window!:str
PodMetrics+: containers!:[ContainerMetrics] metadata:meta.ObjectMeta timestamp!:time window!:str
ContainerMetrics: name!:str usage!:{quantity}
"""


CORE_STORAGE = """
Endpoints+: metadata:meta.ObjectMeta subsets:[EndpointSubset]
PersistentVolume+: metadata:meta.ObjectMeta spec:PersistentVolumeSpec status:PersistentVolumeStatus
PersistentVolumeClaim+: metadata:meta.ObjectMeta spec:PersistentVolumeClaimSpec status:PersistentVolumeClaimStatus
EndpointSubset: addresses:[EndpointAddress] notReadyAddresses:[EndpointAddress] ports:[EndpointPort]
PersistentVolumeSpec: accessModes:[str] awsElasticBlockStore:AWSElasticBlockStoreVolumeSource
    azureDisk:AzureDiskVolumeSource azureFile:AzureFilePersistentVolumeSource capacity:{quantity}
    cephfs:CephFSPersistentVolumeSource cinder:CinderPersistentVolumeSource claimRef:ObjectReference~
    csi:CSIPersistentVolumeSource fc:FCVolumeSource flexVolume:FlexPersistentVolumeSource flocker:FlockerVolumeSource
    gcePersistentDisk:GCEPersistentDiskVolumeSource glusterfs:GlusterfsPersistentVolumeSource
    hostPath:HostPathVolumeSource iscsi:ISCSIPersistentVolumeSource local:LocalVolumeSource mountOptions:[str]
    nfs:NFSVolumeSource nodeAffinity:VolumeNodeAffinity persistentVolumeReclaimPolicy:str
    photonPersistentDisk:PhotonPersistentDiskVolumeSource portworxVolume:PortworxVolumeSource
    quobyte:QuobyteVolumeSource rbd:RBDPersistentVolumeSource scaleIO:ScaleIOPersistentVolumeSource
    storageClassName:str storageos:StorageOSPersistentVolumeSource volumeAttributesClassName:str volumeMode:str
    vsphereVolume:VsphereVirtualDiskVolumeSource
PersistentVolumeStatus: lastPhaseTransitionTime:time message:str phase:str reason:str
PersistentVolumeClaimStatus: accessModes:[str] allocatedResourceStatuses:{str} allocatedResources:{quantity}
    capacity:{quantity} conditions:[PersistentVolumeClaimCondition]=type currentVolumeAttributesClassName:str
    modifyVolumeStatus:ModifyVolumeStatus phase:str
EndpointAddress*: hostname:str ip!:str nodeName:str targetRef:ObjectReference
EndpointPort*: appProtocol:str name:str port!:int32 protocol:str
AzureFilePersistentVolumeSource: readOnly:bool secretName!:str secretNamespace:str shareName!:str
CephFSPersistentVolumeSource: monitors!:[str] path:str readOnly:bool secretFile:str secretRef:SecretReference user:str
CinderPersistentVolumeSource: fsType:str readOnly:bool secretRef:SecretReference volumeID!:str
CSIPersistentVolumeSource: controllerExpandSecretRef:SecretReference controllerPublishSecretRef:SecretReference
    driver!:str fsType:str nodeExpandSecretRef:SecretReference nodePublishSecretRef:SecretReference
    nodeStageSecretRef:SecretReference readOnly:bool volumeAttributes:{str} volumeHandle!:str
FlexPersistentVolumeSource: driver!:str fsType:str options:{str} readOnly:bool secretRef:SecretReference
GlusterfsPersistentVolumeSource: endpoints!:str endpointsNamespace:str path!:str readOnly:bool
ISCSIPersistentVolumeSource: chapAuthDiscovery:bool chapAuthSession:bool fsType:str initiatorName:str iqn!:str
    iscsiInterface:str lun!:int32 portals:[str] readOnly:bool secretRef:SecretReference targetPortal!:str
LocalVolumeSource: fsType:str path!:str
VolumeNodeAffinity: required:NodeSelector
RBDPersistentVolumeSource: fsType:str image!:str keyring:str monitors!:[str] pool:str readOnly:bool
    secretRef:SecretReference user:str
ScaleIOPersistentVolumeSource: fsType:str gateway!:str protectionDomain:str readOnly:bool secretRef!:SecretReference
    sslEnabled:bool storageMode:str storagePool:str system!:str volumeName:str
StorageOSPersistentVolumeSource: fsType:str readOnly:bool secretRef:ObjectReference volumeName:str volumeNamespace:str
PersistentVolumeClaimCondition: lastProbeTime:time lastTransitionTime:time message:str reason:str status!:str
    type!:str
ModifyVolumeStatus: status!:str targetVolumeAttributesClassName:str
SecretReference*: name:str namespace:str
TopologySelectorTerm*: matchLabelExpressions:[TopologySelectorLabelRequirement]
TopologySelectorLabelRequirement: key!:str values!:[str]
"""

DISCOVERY = """
EndpointSlice+: addressType!:str endpoints:[Endpoint] metadata:meta.ObjectMeta ports:[EndpointPort]
Endpoint: addresses!:[str]=set^none conditions:EndpointConditions deprecatedTopology:{str} hints:EndpointHints
    hostname:str nodeName:str targetRef:core.ObjectReference zone:str
EndpointPort*: appProtocol:str name:str port:int32 protocol:str
EndpointConditions: ready:bool serving:bool terminating:bool
EndpointHints: forNodes:[ForNode] forZones:[ForZone]
ForNode: name!:str
ForZone: name!:str
"""

SCHEDULING = """
PriorityClass+: description:str globalDefault:bool metadata:meta.ObjectMeta preemptionPolicy:str value:int32
"""

NODE = """
RuntimeClass+: handler!:str metadata:meta.ObjectMeta overhead:Overhead scheduling:Scheduling
Overhead: podFixed:{quantity}
Scheduling: nodeSelector:{str}* tolerations:[core.Toleration]
"""

STORAGE = """
StorageClass+: allowVolumeExpansion:bool allowedTopologies:[core.TopologySelectorTerm] metadata:meta.ObjectMeta
    mountOptions:[str] parameters:{str} provisioner!:str reclaimPolicy:str volumeBindingMode:str
CSINode+: metadata:meta.ObjectMeta spec!:CSINodeSpec
CSIDriver+: metadata:meta.ObjectMeta spec!:CSIDriverSpec
CSINodeSpec: drivers!:[CSINodeDriver]=name
CSIDriverSpec: attachRequired:bool fsGroupPolicy:str nodeAllocatableUpdatePeriodSeconds:int64 podInfoOnMount:bool
    preventPodSchedulingIfMissing:bool requiresRepublish:bool seLinuxMount:bool serviceAccountTokenInSecrets:bool
    storageCapacity:bool tokenRequests:[TokenRequest] volumeLifecycleModes:[str]=set^none
CSINodeDriver: allocatable:VolumeNodeResources name!:str nodeID!:str topologyKeys:[str]
TokenRequest: audience!:str expirationSeconds:int64
VolumeNodeResources: count:int32
"""
