"""Endpoints, volumes that outlive pods, and the small groups whose objects are stored for those who read them."""

CORE_STORAGE = """
Endpoints+: metadata:meta.ObjectMeta subsets:[EndpointSubset]
PersistentVolume+: metadata:meta.ObjectMeta spec:PersistentVolumeSpec status:PersistentVolumeStatus
PersistentVolumeClaim+: metadata:meta.ObjectMeta spec:PersistentVolumeClaimSpec status:PersistentVolumeClaimStatus
EndpointSubset: addresses:[EndpointAddress] notReadyAddresses:[EndpointAddress] ports:[EndpointPort]
PersistentVolumeSpec: accessModes:[str] awsElasticBlockStore:AWSElasticBlockStoreVolumeSource
    azureDisk:AzureDiskVolumeSource azureFile:AzureFilePersistentVolumeSource capacity:{quantity}
    cephfs:CephFSPersistentVolumeSource cinder:CinderPersistentVolumeSource claimRef:ObjectReference
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
