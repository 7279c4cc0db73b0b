"""Schemas of the core group: objects, pods, containers, volumes."""

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


CORE_POD = """
Pod+: metadata:meta.ObjectMeta spec:PodSpec status:PodStatus
PodSpec: activeDeadlineSeconds:int64 affinity:Affinity automountServiceAccountToken:bool containers!:[Container]=name
    dnsConfig:PodDNSConfig dnsPolicy:str enableServiceLinks:bool ephemeralContainers:[EphemeralContainer]=name
    hostAliases:[HostAlias]=ip hostIPC:bool hostNetwork:bool hostPID:bool hostUsers:bool hostname:str
    hostnameOverride:str imagePullSecrets:[LocalObjectReference]=name initContainers:[Container]=name nodeName:str
    nodeSelector:{str}* os:PodOS overhead:{quantity} preemptionPolicy:str priority:int32 priorityClassName:str
    readinessGates:[PodReadinessGate] resourceClaims:[PodResourceClaim]=name^retain resources:ResourceRequirements
    restartPolicy:str runtimeClassName:str schedulerName:str schedulingGates:[PodSchedulingGate]=name
    schedulingGroup:PodSchedulingGroup securityContext:PodSecurityContext serviceAccount:str serviceAccountName:str
    setHostnameAsFQDN:bool shareProcessNamespace:bool subdomain:str terminationGracePeriodSeconds:int64
    tolerations:[Toleration] topologySpreadConstraints:[TopologySpreadConstraint]=topologyKey,whenUnsatisfiable
    volumes:[Volume]=name^retain
PodStatus: allocatedResources:{quantity} conditions:[PodCondition]=type containerStatuses:[ContainerStatus]
    ephemeralContainerStatuses:[ContainerStatus] extendedResourceClaimStatus:PodExtendedResourceClaimStatus hostIP:str
    hostIPs:[HostIP]^merge,ip initContainerStatuses:[ContainerStatus] message:str
    nodeAllocatableResourceClaimStatuses:[NodeAllocatableResourceClaimStatus] nominatedNodeName:str
    observedGeneration:int64 phase:str podIP:str podIPs:[PodIP]=ip qosClass:str reason:str resize:str
    resourceClaimStatuses:[PodResourceClaimStatus]=name^retain resources:ResourceRequirements startTime:time
    allocatedResourcesStatus:[ResourceStatus]=name
Affinity: nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAntiAffinity
PodDNSConfig: nameservers:[str] options:[PodDNSConfigOption] searches:[str]
HostAlias: hostnames:[str] ip!:str
LocalObjectReference*: name:str
PodOS: name!:str
PodReadinessGate: conditionType!:str
PodResourceClaim: name!:str resourceClaimName:str resourceClaimTemplateName:str
PodSchedulingGate: name!:str
PodSchedulingGroup: podGroupName:str
PodSecurityContext: appArmorProfile:AppArmorProfile fsGroup:int64 fsGroupChangePolicy:str runAsGroup:int64
    runAsNonRoot:bool runAsUser:int64 seLinuxChangePolicy:str seLinuxOptions:SELinuxOptions
    seccompProfile:SeccompProfile supplementalGroups:[int64] supplementalGroupsPolicy:str sysctls:[Sysctl]
    windowsOptions:WindowsSecurityContextOptions
Toleration: effect:str key:str operator:str tolerationSeconds:int64 value:str
TopologySpreadConstraint: labelSelector:meta.LabelSelector matchLabelKeys:[str] maxSkew!:int32 minDomains:int32
    nodeAffinityPolicy:str nodeTaintsPolicy:str topologyKey!:str whenUnsatisfiable!:str
PodCondition: status!:str lastProbeTime:time lastTransitionTime:time message:str observedGeneration:int64 reason:str
    type!:str
PodExtendedResourceClaimStatus: requestMappings!:[ContainerExtendedResourceRequest] resourceClaimName!:str
HostIP: ip!:str
NodeAllocatableResourceClaimStatus: containers:[str]=set^none resourceClaimName!:str resources!:{quantity}
PodIP: ip!:str
PodResourceClaimStatus: name!:str resourceClaimName:str
NodeAffinity: preferredDuringSchedulingIgnoredDuringExecution:[PreferredSchedulingTerm]
    requiredDuringSchedulingIgnoredDuringExecution:NodeSelector
PodAffinity: preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm]
    requiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm]
PodAntiAffinity: preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm]
    requiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm]
PodDNSConfigOption: name:str value:str
Sysctl: name!:str value!:str
ContainerExtendedResourceRequest: containerName!:str requestName!:str resourceName!:str
PreferredSchedulingTerm: preference!:NodeSelectorTerm weight!:int32
NodeSelector*: nodeSelectorTerms!:[NodeSelectorTerm]
WeightedPodAffinityTerm: podAffinityTerm!:PodAffinityTerm weight!:int32
PodAffinityTerm: labelSelector:meta.LabelSelector matchLabelKeys:[str] mismatchLabelKeys:[str]
    namespaceSelector:meta.LabelSelector namespaces:[str] topologyKey!:str
NodeSelectorTerm*: matchExpressions:[NodeSelectorRequirement] matchFields:[NodeSelectorRequirement]
NodeSelectorRequirement: key!:str operator!:str values:[str]
TypedLocalObjectReference*: kind!:str apiGroup:str name!:str
"""


CORE_CONTAINERS = """
Container: args:[str] command:[str] env:[EnvVar]=name envFrom:[EnvFromSource] image:str imagePullPolicy:str
    lifecycle:Lifecycle livenessProbe:Probe name!:str ports:[ContainerPort]=containerPort,protocol
    readinessProbe:Probe resizePolicy:[ContainerResizePolicy] resources:ResourceRequirements restartPolicy:str
    restartPolicyRules:[ContainerRestartRule] securityContext:SecurityContext startupProbe:Probe stdin:bool
    stdinOnce:bool terminationMessagePath:str terminationMessagePolicy:str tty:bool
    volumeDevices:[VolumeDevice]=devicePath volumeMounts:[VolumeMount]=mountPath workingDir:str
EnvVar: name!:str value:str valueFrom:EnvVarSource
EnvFromSource: configMapRef:ConfigMapEnvSource prefix:str secretRef:SecretEnvSource
Lifecycle: postStart:LifecycleHandler preStop:LifecycleHandler stopSignal:str
Probe: exec:ExecAction failureThreshold:int32 grpc:GRPCAction httpGet:HTTPGetAction initialDelaySeconds:int32
    periodSeconds:int32 successThreshold:int32 tcpSocket:TCPSocketAction terminationGracePeriodSeconds:int64
    timeoutSeconds:int32
ContainerPort: containerPort!:int32 hostIP:str hostPort:int32 name:str protocol:str/TCP
ContainerResizePolicy: resourceName!:str restartPolicy!:str
ResourceRequirements: claims:[ResourceClaim]=name^none limits:{quantity} requests:{quantity}
ContainerRestartRule: action!:str exitCodes:ContainerRestartRuleOnExitCodes
SecurityContext: allowPrivilegeEscalation:bool appArmorProfile:AppArmorProfile capabilities:Capabilities
    privileged:bool procMount:str readOnlyRootFilesystem:bool runAsGroup:int64 runAsNonRoot:bool runAsUser:int64
    seLinuxOptions:SELinuxOptions seccompProfile:SeccompProfile windowsOptions:WindowsSecurityContextOptions
VolumeDevice: devicePath!:str name!:str
VolumeMount: mountPath!:str mountPropagation:str name!:str readOnly:bool recursiveReadOnly:str subPath:str
    subPathExpr:str
EnvVarSource: configMapKeyRef:ConfigMapKeySelector fieldRef:ObjectFieldSelector fileKeyRef:FileKeySelector
    resourceFieldRef:ResourceFieldSelector secretKeyRef:SecretKeySelector
ConfigMapEnvSource: name:str optional:bool
SecretEnvSource: name:str optional:bool
LifecycleHandler: exec:ExecAction httpGet:HTTPGetAction sleep:SleepAction tcpSocket:TCPSocketAction
ExecAction: command:[str]
GRPCAction: port!:int32 service:str
HTTPGetAction: host:str httpHeaders:[HTTPHeader] path:str port!:int-or-string scheme:str
TCPSocketAction: host:str port!:int-or-string
ResourceClaim: name!:str request:str
ContainerRestartRuleOnExitCodes: operator!:str values:[int32]=set^none
AppArmorProfile: localhostProfile:str type!:str
Capabilities: add:[str] drop:[str]
SELinuxOptions: level:str role:str type:str user:str
SeccompProfile: localhostProfile:str type!:str
WindowsSecurityContextOptions: gmsaCredentialSpec:str gmsaCredentialSpecName:str hostProcess:bool runAsUserName:str
ConfigMapKeySelector*: key!:str name:str optional:bool
ObjectFieldSelector*: apiVersion:str fieldPath!:str
FileKeySelector*: key!:str optional:bool path!:str volumeName!:str
ResourceFieldSelector*: containerName:str divisor:quantity resource!:str
SecretKeySelector*: key!:str name:str optional:bool
SleepAction: seconds!:int64
HTTPHeader: name!:str value!:str
EphemeralContainer: args:[str] command:[str] env:[EnvVar]=name envFrom:[EnvFromSource] image:str imagePullPolicy:str
    lifecycle:Lifecycle livenessProbe:Probe name!:str ports:[ContainerPort]=containerPort,protocol
    readinessProbe:Probe resizePolicy:[ContainerResizePolicy] resources:ResourceRequirements restartPolicy:str
    restartPolicyRules:[ContainerRestartRule] securityContext:SecurityContext startupProbe:Probe stdin:bool
    stdinOnce:bool targetContainerName:str terminationMessagePath:str terminationMessagePolicy:str tty:bool
    volumeDevices:[VolumeDevice]=devicePath volumeMounts:[VolumeMount]=mountPath workingDir:str
ContainerStatus: allocatedResources:{quantity} allocatedResourcesStatus:[ResourceStatus]=name containerID:str
    image!:str imageID!:str lastState:ContainerState name!:str ready!:bool resources:ResourceRequirements
    restartCount!:int32 started:bool state:ContainerState stopSignal:str user:ContainerUser
    volumeMounts:[VolumeMountStatus]=mountPath
ResourceStatus: name!:str resources:[ResourceHealth]=resourceID^none
ContainerState: running:ContainerStateRunning terminated:ContainerStateTerminated waiting:ContainerStateWaiting
ContainerUser: linux:LinuxContainerUser
VolumeMountStatus: mountPath!:str name!:str readOnly:bool recursiveReadOnly:str volumeStatus:VolumeStatus
ResourceHealth: health:str message:str resourceID!:str
ContainerStateRunning: startedAt:time
ContainerStateTerminated: containerID:str exitCode!:int32 finishedAt:time message:str reason:str signal:int32
    startedAt:time
ContainerStateWaiting: message:str reason:str
LinuxContainerUser: gid!:int64 supplementalGroups:[int64] uid!:int64
VolumeStatus: image:ImageVolumeStatus
ImageVolumeStatus: imageRef!:str
"""


CORE_VOLUMES = """
Volume: awsElasticBlockStore:AWSElasticBlockStoreVolumeSource azureDisk:AzureDiskVolumeSource
    azureFile:AzureFileVolumeSource cephfs:CephFSVolumeSource cinder:CinderVolumeSource
    configMap:ConfigMapVolumeSource csi:CSIVolumeSource downwardAPI:DownwardAPIVolumeSource
    emptyDir:EmptyDirVolumeSource ephemeral:EphemeralVolumeSource fc:FCVolumeSource flexVolume:FlexVolumeSource
    flocker:FlockerVolumeSource gcePersistentDisk:GCEPersistentDiskVolumeSource gitRepo:GitRepoVolumeSource
    glusterfs:GlusterfsVolumeSource hostPath:HostPathVolumeSource image:ImageVolumeSource iscsi:ISCSIVolumeSource
    name!:str nfs:NFSVolumeSource persistentVolumeClaim:PersistentVolumeClaimVolumeSource
    photonPersistentDisk:PhotonPersistentDiskVolumeSource portworxVolume:PortworxVolumeSource
    projected:ProjectedVolumeSource quobyte:QuobyteVolumeSource rbd:RBDVolumeSource scaleIO:ScaleIOVolumeSource
    secret:SecretVolumeSource storageos:StorageOSVolumeSource vsphereVolume:VsphereVirtualDiskVolumeSource
AWSElasticBlockStoreVolumeSource: fsType:str partition:int32 readOnly:bool volumeID!:str
AzureDiskVolumeSource: kind:str cachingMode:str diskName!:str diskURI!:str fsType:str readOnly:bool
AzureFileVolumeSource: readOnly:bool secretName!:str shareName!:str
CephFSVolumeSource: monitors!:[str] path:str readOnly:bool secretFile:str secretRef:LocalObjectReference user:str
CinderVolumeSource: fsType:str readOnly:bool secretRef:LocalObjectReference volumeID!:str
ConfigMapVolumeSource: defaultMode:int32 items:[KeyToPath] name:str optional:bool
CSIVolumeSource: driver!:str fsType:str nodePublishSecretRef:LocalObjectReference readOnly:bool volumeAttributes:{str}
DownwardAPIVolumeSource: defaultMode:int32 items:[DownwardAPIVolumeFile]
EmptyDirVolumeSource: medium:str sizeLimit:quantity
EphemeralVolumeSource: volumeClaimTemplate:PersistentVolumeClaimTemplate
FCVolumeSource: fsType:str lun:int32 readOnly:bool targetWWNs:[str] wwids:[str]
FlexVolumeSource: driver!:str fsType:str options:{str} readOnly:bool secretRef:LocalObjectReference
FlockerVolumeSource: datasetName:str datasetUUID:str
GCEPersistentDiskVolumeSource: fsType:str partition:int32 pdName!:str readOnly:bool
GitRepoVolumeSource: directory:str repository!:str revision:str
GlusterfsVolumeSource: endpoints!:str path!:str readOnly:bool
HostPathVolumeSource: path!:str type:str
ImageVolumeSource: pullPolicy:str reference:str
ISCSIVolumeSource: chapAuthDiscovery:bool chapAuthSession:bool fsType:str initiatorName:str iqn!:str
    iscsiInterface:str lun!:int32 portals:[str] readOnly:bool secretRef:LocalObjectReference targetPortal!:str
NFSVolumeSource: path!:str readOnly:bool server!:str
PersistentVolumeClaimVolumeSource: claimName!:str readOnly:bool
PhotonPersistentDiskVolumeSource: fsType:str pdID!:str
PortworxVolumeSource: fsType:str readOnly:bool volumeID!:str
ProjectedVolumeSource: defaultMode:int32 sources:[VolumeProjection]
QuobyteVolumeSource: group:str readOnly:bool registry!:str tenant:str user:str volume!:str
RBDVolumeSource: fsType:str image!:str keyring:str monitors!:[str] pool:str readOnly:bool
    secretRef:LocalObjectReference user:str
ScaleIOVolumeSource: fsType:str gateway!:str protectionDomain:str readOnly:bool secretRef!:LocalObjectReference
    sslEnabled:bool storageMode:str storagePool:str system!:str volumeName:str
SecretVolumeSource: defaultMode:int32 items:[KeyToPath] optional:bool secretName:str
StorageOSVolumeSource: fsType:str readOnly:bool secretRef:LocalObjectReference volumeName:str volumeNamespace:str
VsphereVirtualDiskVolumeSource: fsType:str storagePolicyID:str storagePolicyName:str volumePath!:str
KeyToPath: key!:str mode:int32 path!:str
DownwardAPIVolumeFile: fieldRef:ObjectFieldSelector mode:int32 path!:str resourceFieldRef:ResourceFieldSelector
PersistentVolumeClaimTemplate: metadata:meta.ObjectMeta spec!:PersistentVolumeClaimSpec
VolumeProjection: clusterTrustBundle:ClusterTrustBundleProjection configMap:ConfigMapProjection
    downwardAPI:DownwardAPIProjection podCertificate:PodCertificateProjection secret:SecretProjection
    serviceAccountToken:ServiceAccountTokenProjection
PersistentVolumeClaimSpec: accessModes:[str] dataSource:TypedLocalObjectReference dataSourceRef:TypedObjectReference
    resources:VolumeResourceRequirements selector:meta.LabelSelector storageClassName:str
    volumeAttributesClassName:str volumeMode:str volumeName:str
ClusterTrustBundleProjection: labelSelector:meta.LabelSelector name:str optional:bool path!:str signerName:str
ConfigMapProjection: items:[KeyToPath] name:str optional:bool
DownwardAPIProjection: items:[DownwardAPIVolumeFile]
PodCertificateProjection: certificateChainPath:str credentialBundlePath:str keyPath:str keyType!:str
    maxExpirationSeconds:int32 signerName!:str userAnnotations:{str}
SecretProjection: items:[KeyToPath] name:str optional:bool
ServiceAccountTokenProjection: audience:str expirationSeconds:int64 path!:str
TypedObjectReference: kind!:str apiGroup:str name!:str namespace:str
VolumeResourceRequirements: limits:{quantity} requests:{quantity}
"""
