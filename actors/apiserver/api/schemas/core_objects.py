"""core/v1: every kind but the pod."""

CORE_OBJECTS = """
Binding+: metadata:meta.ObjectMeta target!:ObjectReference
ConfigMap+: metadata:meta.ObjectMeta binaryData:{bytes} data:{str} immutable:bool
Event+: metadata!:meta.ObjectMeta action:str count:int32 eventTime:microtime firstTimestamp:time
    involvedObject!:ObjectReference lastTimestamp:time message:str reason:str related:ObjectReference
    reportingComponent:str reportingInstance:str series:EventSeries source:EventSource type:str
Namespace+: metadata:meta.ObjectMeta spec:NamespaceSpec status:NamespaceStatus
Node+: metadata:meta.ObjectMeta spec:NodeSpec status:NodeStatus
Secret+: metadata:meta.ObjectMeta data:{bytes} immutable:bool stringData:{str} type:str
Service+: metadata:meta.ObjectMeta spec:ServiceSpec status:ServiceStatus
ServiceAccount+: metadata:meta.ObjectMeta automountServiceAccountToken:bool imagePullSecrets:[LocalObjectReference]
    secrets:[ObjectReference]=name
ObjectReference*: apiVersion:str kind:str fieldPath:str name:str namespace:str resourceVersion:str uid:str
EventSeries: count:int32 lastObservedTime:microtime
EventSource: component:str host:str
NamespaceSpec: finalizers:[str]
NamespaceStatus: conditions:[NamespaceCondition]=type phase:str
NodeSpec: configSource:NodeConfigSource externalID:str podCIDR:str podCIDRs:[str]=set providerID:str taints:[Taint]
    unschedulable:bool
NodeStatus: addresses:[NodeAddress]=type allocatable:{quantity} capacity:{quantity} conditions:[NodeCondition]=type
    config:NodeConfigStatus daemonEndpoints:NodeDaemonEndpoints declaredFeatures:[str] features:NodeFeatures
    images:[ContainerImage] nodeInfo:NodeSystemInfo phase:str runtimeHandlers:[NodeRuntimeHandler]
    volumesAttached:[AttachedVolume] volumesInUse:[str]
ServiceSpec: allocateLoadBalancerNodePorts:bool clusterIP:str clusterIPs:[str] externalIPs:[str] externalName:str
    externalTrafficPolicy:str healthCheckNodePort:int32 internalTrafficPolicy:str ipFamilies:[str] ipFamilyPolicy:str
    loadBalancerClass:str loadBalancerIP:str loadBalancerSourceRanges:[str] ports:[ServicePort]=port,protocol
    publishNotReadyAddresses:bool selector:{str}* sessionAffinity:str sessionAffinityConfig:SessionAffinityConfig
    trafficDistribution:str type:str
ServiceStatus: conditions:[meta.Condition]=type loadBalancer:LoadBalancerStatus
NamespaceCondition: status!:str lastTransitionTime:time message:str reason:str type!:str
NodeConfigSource: configMap:ConfigMapNodeConfigSource
Taint: effect!:str key!:str timeAdded:time value:str
NodeAddress: address!:str type!:str
NodeCondition: status!:str lastHeartbeatTime:time lastTransitionTime:time message:str reason:str type!:str
NodeConfigStatus: active:NodeConfigSource assigned:NodeConfigSource error:str lastKnownGood:NodeConfigSource
NodeDaemonEndpoints: kubeletEndpoint:DaemonEndpoint
NodeFeatures: supplementalGroupsPolicy:bool
ContainerImage: names:[str] sizeBytes:int64
NodeSystemInfo: architecture!:str bootID!:str containerRuntimeVersion!:str kernelVersion!:str kubeProxyVersion!:str
    kubeletVersion!:str machineID!:str operatingSystem!:str osImage!:str swap:NodeSwapStatus systemUUID!:str
NodeRuntimeHandler: features:NodeRuntimeHandlerFeatures name:str
AttachedVolume: devicePath!:str name!:str
ServicePort: appProtocol:str name:str nodePort:int32 port!:int32 protocol:str/TCP targetPort:int-or-string
SessionAffinityConfig: clientIP:ClientIPConfig
LoadBalancerStatus: ingress:[LoadBalancerIngress]
ConfigMapNodeConfigSource: kubeletConfigKey!:str name!:str namespace!:str resourceVersion:str uid:str
DaemonEndpoint: Port!:int32
NodeSwapStatus: capacity:int64
NodeRuntimeHandlerFeatures: recursiveReadOnlyMounts:bool userNamespaces:bool
ClientIPConfig: timeoutSeconds:int32
LoadBalancerIngress: hostname:str ip:str ipMode:str ports:[PortStatus]
PortStatus: error:str port!:int32 protocol!:str
"""
