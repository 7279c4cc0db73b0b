"""Services, endpoints, volumes that outlive pods, and the small groups beside them."""

CORE_CLUSTER = """
Service: 1:metadata:meta.ObjectMeta 2:spec:ServiceSpec 3:status:ServiceStatus
Endpoints: 1:metadata:meta.ObjectMeta 2:subsets:[]EndpointSubset
PersistentVolume: 1:metadata:meta.ObjectMeta 2:spec:PersistentVolumeSpec 3:status:PersistentVolumeStatus
PersistentVolumeClaim: 1:metadata:meta.ObjectMeta 2:spec:PersistentVolumeClaimSpec
    3:status:PersistentVolumeClaimStatus
ServiceSpec: 1:ports:[]ServicePort 2:selector:{}string 3:clusterIP:string 4:type:string 5:externalIPs:[]string
    7:sessionAffinity:string 8:loadBalancerIP:string 9:loadBalancerSourceRanges:[]string 10:externalName:string
    11:externalTrafficPolicy:string 12:healthCheckNodePort:int32 13:publishNotReadyAddresses:bool
    14:sessionAffinityConfig:SessionAffinityConfig 17:ipFamilyPolicy:string! 18:clusterIPs:[]string
    19:ipFamilies:[]string 20:allocateLoadBalancerNodePorts:bool! 21:loadBalancerClass:string!
    22:internalTrafficPolicy:string! 23:trafficDistribution:string!
ServiceStatus: 1:loadBalancer:LoadBalancerStatus 2:conditions:[]meta.Condition
EndpointSubset: 1:addresses:[]EndpointAddress 2:notReadyAddresses:[]EndpointAddress 3:ports:[]EndpointPort
PersistentVolumeSpec: 1:capacity:{}Quantity 2:persistentVolumeSource:PersistentVolumeSource& 3:accessModes:[]string
    4:claimRef:ObjectReference 5:persistentVolumeReclaimPolicy:string 6:storageClassName:string
    7:mountOptions:[]string 8:volumeMode:string! 9:nodeAffinity:VolumeNodeAffinity 10:volumeAttributesClassName:string!
PersistentVolumeStatus: 1:phase:string 2:message:string 3:reason:string 4:lastPhaseTransitionTime:Time
PersistentVolumeClaimStatus: 1:phase:string 2:accessModes:[]string 3:capacity:{}Quantity
    4:conditions:[]PersistentVolumeClaimCondition 5:allocatedResources:{}Quantity 7:allocatedResourceStatuses:{}string
    8:currentVolumeAttributesClassName:string! 9:modifyVolumeStatus:ModifyVolumeStatus
ServicePort: 1:name:string 2:protocol:string 3:port:int32! 4:targetPort:IntOrString 5:nodePort:int32
    6:appProtocol:string!
SessionAffinityConfig: 1:clientIP:ClientIPConfig
LoadBalancerStatus: 1:ingress:[]LoadBalancerIngress
EndpointAddress: 1:ip:string! 2:targetRef:ObjectReference 3:hostname:string 4:nodeName:string!
EndpointPort: 1:name:string 2:port:int32! 3:protocol:string 4:appProtocol:string!
PersistentVolumeSource: 1:gcePersistentDisk:GCEPersistentDiskVolumeSource
    2:awsElasticBlockStore:AWSElasticBlockStoreVolumeSource 3:hostPath:HostPathVolumeSource
    4:glusterfs:GlusterfsPersistentVolumeSource 5:nfs:NFSVolumeSource 6:rbd:RBDPersistentVolumeSource
    7:iscsi:ISCSIPersistentVolumeSource 8:cinder:CinderPersistentVolumeSource 9:cephfs:CephFSPersistentVolumeSource
    10:fc:FCVolumeSource 11:flocker:FlockerVolumeSource 12:flexVolume:FlexPersistentVolumeSource
    13:azureFile:AzureFilePersistentVolumeSource 14:vsphereVolume:VsphereVirtualDiskVolumeSource
    15:quobyte:QuobyteVolumeSource 16:azureDisk:AzureDiskVolumeSource
    17:photonPersistentDisk:PhotonPersistentDiskVolumeSource 18:portworxVolume:PortworxVolumeSource
    19:scaleIO:ScaleIOPersistentVolumeSource 20:local:LocalVolumeSource 21:storageos:StorageOSPersistentVolumeSource
    22:csi:CSIPersistentVolumeSource
VolumeNodeAffinity: 1:required:NodeSelector
PersistentVolumeClaimCondition: 1:type:string! 2:status:string! 3:lastProbeTime:Time 4:lastTransitionTime:Time
    5:reason:string 6:message:string
ModifyVolumeStatus: 1:targetVolumeAttributesClassName:string 2:status:string!
ClientIPConfig: 1:timeoutSeconds:int32!
LoadBalancerIngress: 1:ip:string 2:hostname:string 3:ipMode:string! 4:ports:[]PortStatus
GlusterfsPersistentVolumeSource: 1:endpoints:string! 2:path:string! 3:readOnly:bool 4:endpointsNamespace:string!
RBDPersistentVolumeSource: 1:monitors:[]string 2:image:string! 3:fsType:string 4:pool:string 5:user:string
    6:keyring:string 7:secretRef:SecretReference 8:readOnly:bool
ISCSIPersistentVolumeSource: 1:targetPortal:string! 2:iqn:string! 3:lun:int32! 4:iscsiInterface:string 5:fsType:string
    6:readOnly:bool 7:portals:[]string 8:chapAuthDiscovery:bool 10:secretRef:SecretReference 11:chapAuthSession:bool
    12:initiatorName:string!
CinderPersistentVolumeSource: 1:volumeID:string! 2:fsType:string 3:readOnly:bool 4:secretRef:SecretReference
CephFSPersistentVolumeSource: 1:monitors:[]string 2:path:string 3:user:string 4:secretFile:string
    5:secretRef:SecretReference 6:readOnly:bool
FlexPersistentVolumeSource: 1:driver:string! 2:fsType:string 3:secretRef:SecretReference 4:readOnly:bool
    5:options:{}string
AzureFilePersistentVolumeSource: 1:secretName:string! 2:shareName:string! 3:readOnly:bool 4:secretNamespace:string!
ScaleIOPersistentVolumeSource: 1:gateway:string! 2:system:string! 3:secretRef:SecretReference 4:sslEnabled:bool
    5:protectionDomain:string 6:storagePool:string 7:storageMode:string 8:volumeName:string 9:fsType:string
    10:readOnly:bool
LocalVolumeSource: 1:path:string! 2:fsType:string!
StorageOSPersistentVolumeSource: 1:volumeName:string 2:volumeNamespace:string 3:fsType:string 4:readOnly:bool
    5:secretRef:ObjectReference
CSIPersistentVolumeSource: 1:driver:string! 2:volumeHandle:string! 3:readOnly:bool 4:fsType:string
    5:volumeAttributes:{}string 6:controllerPublishSecretRef:SecretReference 7:nodeStageSecretRef:SecretReference
    8:nodePublishSecretRef:SecretReference 9:controllerExpandSecretRef:SecretReference
    10:nodeExpandSecretRef:SecretReference
PortStatus: 1:port:int32! 2:protocol:string! 3:error:string!
SecretReference: 1:name:string 2:namespace:string
TopologySelectorTerm: 1:matchLabelExpressions:[]TopologySelectorLabelRequirement
TopologySelectorLabelRequirement: 1:key:string! 2:values:[]string
"""

DISCOVERY = """
EndpointSlice: 1:metadata:meta.ObjectMeta 2:endpoints:[]Endpoint 3:ports:[]EndpointPort 4:addressType:string!
Endpoint: 1:addresses:[]string 2:conditions:EndpointConditions 3:hostname:string! 4:targetRef:core.ObjectReference
    5:deprecatedTopology:{}string 6:nodeName:string! 7:zone:string! 8:hints:EndpointHints
EndpointPort: 1:name:string! 2:protocol:string! 3:port:int32! 4:appProtocol:string!
EndpointConditions: 1:ready:bool! 2:serving:bool! 3:terminating:bool!
EndpointHints: 1:forZones:[]ForZone 2:forNodes:[]ForNode
ForZone: 1:name:string!
ForNode: 1:name:string!
"""

SCHEDULING = """
PriorityClass: 1:metadata:meta.ObjectMeta 2:value:int32! 3:globalDefault:bool 4:description:string
    5:preemptionPolicy:string!
"""

NODE = """
RuntimeClass: 1:metadata:meta.ObjectMeta 2:handler:string! 3:overhead:Overhead 4:scheduling:Scheduling
Overhead: 1:podFixed:{}Quantity
Scheduling: 1:nodeSelector:{}string 2:tolerations:[]core.Toleration
"""

STORAGE = """
StorageClass: 1:metadata:meta.ObjectMeta 2:provisioner:string! 3:parameters:{}string 4:reclaimPolicy:string!
    5:mountOptions:[]string 6:allowVolumeExpansion:bool! 7:volumeBindingMode:string!
    8:allowedTopologies:[]core.TopologySelectorTerm
CSINode: 1:metadata:meta.ObjectMeta 2:spec:CSINodeSpec
CSIDriver: 1:metadata:meta.ObjectMeta 2:spec:CSIDriverSpec
CSINodeSpec: 1:drivers:[]CSINodeDriver
CSIDriverSpec: 1:attachRequired:bool! 2:podInfoOnMount:bool! 3:volumeLifecycleModes:[]string 4:storageCapacity:bool!
    5:fsGroupPolicy:string! 6:tokenRequests:[]TokenRequest 7:requiresRepublish:bool! 8:seLinuxMount:bool!
    9:nodeAllocatableUpdatePeriodSeconds:int64! 10:serviceAccountTokenInSecrets:bool!
    11:preventPodSchedulingIfMissing:bool!
CSINodeDriver: 1:name:string! 2:nodeID:string! 3:topologyKeys:[]string 4:allocatable:VolumeNodeResources
TokenRequest: 1:audience:string! 2:expirationSeconds:int64!
VolumeNodeResources: 1:count:int32!
"""
