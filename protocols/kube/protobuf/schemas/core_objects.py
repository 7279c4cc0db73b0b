"""core/v1: nodes, namespaces, events, configuration, secrets, accounts, bindings."""

META = """
DeleteOptions: 1:gracePeriodSeconds:int64! 2:preconditions:Preconditions 3:orphanDependents:bool!
    4:propagationPolicy:string! 5:dryRun:[]string 6:ignoreStoreReadErrorWithClusterBreakingPotential:bool!
Status: 1:metadata:ListMeta 2:status:string 3:message:string 4:reason:string 5:details:StatusDetails 6:code:int32
ObjectMeta: 1:name:string 2:generateName:string 3:namespace:string 4:selfLink:string 5:uid:string
    6:resourceVersion:string 7:generation:int64 8:creationTimestamp:Time 9:deletionTimestamp:Time
    10:deletionGracePeriodSeconds:int64! 11:labels:{}string 12:annotations:{}string
    13:ownerReferences:[]OwnerReference 14:finalizers:[]string 17:managedFields:[]ManagedFieldsEntry
ListMeta: 1:selfLink:string 2:resourceVersion:string 3:continue:string 4:remainingItemCount:int64!
    5:shardInfo:ShardInfo
Preconditions: 1:uid:string! 2:resourceVersion:string!
StatusDetails: 1:name:string 2:group:string 3:kind:string 4:causes:[]StatusCause 5:retryAfterSeconds:int32
    6:uid:string
OwnerReference: 1:kind:string! 3:name:string! 4:uid:string! 5:apiVersion:string! 6:controller:bool!
    7:blockOwnerDeletion:bool!
ManagedFieldsEntry: 1:manager:string 2:operation:string 3:apiVersion:string 4:time:Time 6:fieldsType:string
    7:fieldsV1:Raw 8:subresource:string
ShardInfo: 1:selector:string!
PartialObjectMetadata: 1:metadata:ObjectMeta
StatusCause: 1:reason:string 2:message:string 3:field:string
LabelSelector: 1:matchLabels:{}string 2:matchExpressions:[]LabelSelectorRequirement
Condition: 1:type:string! 2:status:string! 3:observedGeneration:int64 4:lastTransitionTime:Time 5:reason:string!
    6:message:string!
LabelSelectorRequirement: 1:key:string! 2:operator:string! 3:values:[]string
FieldSelectorRequirement: 1:key:string! 2:operator:string! 3:values:[]string
"""


OBJECTS = """
Node: 1:metadata:meta.ObjectMeta 2:spec:NodeSpec 3:status:NodeStatus
Namespace: 1:metadata:meta.ObjectMeta 2:spec:NamespaceSpec 3:status:NamespaceStatus
Event: 1:metadata:meta.ObjectMeta 2:involvedObject:ObjectReference 3:reason:string 4:message:string
    5:source:EventSource 6:firstTimestamp:Time 7:lastTimestamp:Time 8:count:int32 9:type:string 10:eventTime:MicroTime
    11:series:EventSeries 12:action:string 13:related:ObjectReference 14:reportingComponent:string!
    15:reportingInstance:string!
ConfigMap: 1:metadata:meta.ObjectMeta 2:data:{}string 3:binaryData:{}bytes 4:immutable:bool!
Secret: 1:metadata:meta.ObjectMeta 2:data:{}bytes 3:type:string 4:stringData:{}string 5:immutable:bool!
ServiceAccount: 1:metadata:meta.ObjectMeta 2:secrets:[]ObjectReference 3:imagePullSecrets:[]LocalObjectReference
    4:automountServiceAccountToken:bool!
Binding: 1:metadata:meta.ObjectMeta 2:target:ObjectReference
NodeSpec: 1:podCIDR:string 2:externalID:string 3:providerID:string 4:unschedulable:bool 5:taints:[]Taint
    6:configSource:NodeConfigSource 7:podCIDRs:[]string
NodeStatus: 1:capacity:{}Quantity 2:allocatable:{}Quantity 3:phase:string 4:conditions:[]NodeCondition
    5:addresses:[]NodeAddress 6:daemonEndpoints:NodeDaemonEndpoints 7:nodeInfo:NodeSystemInfo
    8:images:[]ContainerImage 9:volumesInUse:[]string 10:volumesAttached:[]AttachedVolume 11:config:NodeConfigStatus
    12:runtimeHandlers:[]NodeRuntimeHandler 13:features:NodeFeatures 14:declaredFeatures:[]string
NamespaceSpec: 1:finalizers:[]string
NamespaceStatus: 1:phase:string 2:conditions:[]NamespaceCondition
ObjectReference: 1:kind:string 2:namespace:string 3:name:string 4:uid:string 5:apiVersion:string
    6:resourceVersion:string 7:fieldPath:string
EventSource: 1:component:string 2:host:string
EventSeries: 1:count:int32 2:lastObservedTime:MicroTime
LocalObjectReference: 1:name:string
Taint: 1:key:string! 2:value:string 3:effect:string! 4:timeAdded:Time
NodeConfigSource: 2:configMap:ConfigMapNodeConfigSource
NodeCondition: 1:type:string! 2:status:string! 3:lastHeartbeatTime:Time 4:lastTransitionTime:Time 5:reason:string
    6:message:string
NodeAddress: 1:type:string! 2:address:string!
NodeDaemonEndpoints: 1:kubeletEndpoint:DaemonEndpoint
NodeSystemInfo: 1:machineID:string! 2:systemUUID:string! 3:bootID:string! 4:kernelVersion:string! 5:osImage:string!
    6:containerRuntimeVersion:string! 7:kubeletVersion:string! 8:kubeProxyVersion:string! 9:operatingSystem:string!
    10:architecture:string! 11:swap:NodeSwapStatus
ContainerImage: 1:names:[]string 2:sizeBytes:int64
AttachedVolume: 1:name:string! 2:devicePath:string!
NodeConfigStatus: 1:assigned:NodeConfigSource 2:active:NodeConfigSource 3:lastKnownGood:NodeConfigSource
    4:error:string
NodeRuntimeHandler: 1:name:string! 2:features:NodeRuntimeHandlerFeatures
NodeFeatures: 1:supplementalGroupsPolicy:bool!
NamespaceCondition: 1:type:string! 2:status:string! 4:lastTransitionTime:Time 5:reason:string 6:message:string
ConfigMapNodeConfigSource: 1:namespace:string! 2:name:string! 3:uid:string 4:resourceVersion:string
    5:kubeletConfigKey:string!
DaemonEndpoint: 1:Port:int32!
NodeSwapStatus: 1:capacity:int64!
NodeRuntimeHandlerFeatures: 1:recursiveReadOnlyMounts:bool! 2:userNamespaces:bool!
"""
