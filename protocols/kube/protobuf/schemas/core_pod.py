"""core/v1: pods, their scheduling and their status."""

POD = """
Pod: 1:metadata:meta.ObjectMeta 2:spec:PodSpec 3:status:PodStatus
PodSpec: 1:volumes:[]Volume 2:containers:[]Container 3:restartPolicy:string 4:terminationGracePeriodSeconds:int64!
    5:activeDeadlineSeconds:int64! 6:dnsPolicy:string 7:nodeSelector:{}string 8:serviceAccountName:string
    9:serviceAccount:string 10:nodeName:string 11:hostNetwork:bool 12:hostPID:bool 13:hostIPC:bool
    14:securityContext:PodSecurityContext 15:imagePullSecrets:[]LocalObjectReference 16:hostname:string
    17:subdomain:string 18:affinity:Affinity 19:schedulerName:string 20:initContainers:[]Container
    21:automountServiceAccountToken:bool! 22:tolerations:[]Toleration 23:hostAliases:[]HostAlias
    24:priorityClassName:string 25:priority:int32! 26:dnsConfig:PodDNSConfig 27:shareProcessNamespace:bool!
    28:readinessGates:[]PodReadinessGate 29:runtimeClassName:string! 30:enableServiceLinks:bool!
    31:preemptionPolicy:string! 32:overhead:{}Quantity 33:topologySpreadConstraints:[]TopologySpreadConstraint
    34:ephemeralContainers:[]EphemeralContainer 35:setHostnameAsFQDN:bool! 36:os:PodOS 37:hostUsers:bool!
    38:schedulingGates:[]PodSchedulingGate 39:resourceClaims:[]PodResourceClaim 40:resources:ResourceRequirements
    41:hostnameOverride:string! 43:schedulingGroup:PodSchedulingGroup
Volume: 1:name:string! 2:volumeSource:VolumeSource&
PodSecurityContext: 1:seLinuxOptions:SELinuxOptions 2:runAsUser:int64! 3:runAsNonRoot:bool!
    4:supplementalGroups:[]int64 5:fsGroup:int64! 6:runAsGroup:int64! 7:sysctls:[]Sysctl
    8:windowsOptions:WindowsSecurityContextOptions 9:fsGroupChangePolicy:string! 10:seccompProfile:SeccompProfile
    11:appArmorProfile:AppArmorProfile 12:supplementalGroupsPolicy:string! 13:seLinuxChangePolicy:string!
Affinity: 1:nodeAffinity:NodeAffinity 2:podAffinity:PodAffinity 3:podAntiAffinity:PodAntiAffinity
Toleration: 1:key:string 2:operator:string 3:value:string 4:effect:string 5:tolerationSeconds:int64!
HostAlias: 1:ip:string! 2:hostnames:[]string
PodDNSConfig: 1:nameservers:[]string 2:searches:[]string 3:options:[]PodDNSConfigOption
PodReadinessGate: 1:conditionType:string!
TopologySpreadConstraint: 1:maxSkew:int32! 2:topologyKey:string! 3:whenUnsatisfiable:string!
    4:labelSelector:meta.LabelSelector 5:minDomains:int32! 6:nodeAffinityPolicy:string! 7:nodeTaintsPolicy:string!
    8:matchLabelKeys:[]string
PodOS: 1:name:string!
PodSchedulingGate: 1:name:string!
PodResourceClaim: 1:name:string! 3:resourceClaimName:string! 4:resourceClaimTemplateName:string!
PodSchedulingGroup: 1:podGroupName:string!
Sysctl: 1:name:string! 2:value:string!
NodeAffinity: 1:requiredDuringSchedulingIgnoredDuringExecution:NodeSelector
    2:preferredDuringSchedulingIgnoredDuringExecution:[]PreferredSchedulingTerm
PodAffinity: 1:requiredDuringSchedulingIgnoredDuringExecution:[]PodAffinityTerm
    2:preferredDuringSchedulingIgnoredDuringExecution:[]WeightedPodAffinityTerm
PodAntiAffinity: 1:requiredDuringSchedulingIgnoredDuringExecution:[]PodAffinityTerm
    2:preferredDuringSchedulingIgnoredDuringExecution:[]WeightedPodAffinityTerm
PodDNSConfigOption: 1:name:string 2:value:string!
NodeSelector: 1:nodeSelectorTerms:[]NodeSelectorTerm
PreferredSchedulingTerm: 1:weight:int32! 2:preference:NodeSelectorTerm
PodAffinityTerm: 1:labelSelector:meta.LabelSelector 2:namespaces:[]string 3:topologyKey:string!
    4:namespaceSelector:meta.LabelSelector 5:matchLabelKeys:[]string 6:mismatchLabelKeys:[]string
WeightedPodAffinityTerm: 1:weight:int32! 2:podAffinityTerm:PodAffinityTerm
NodeSelectorTerm: 1:matchExpressions:[]NodeSelectorRequirement 2:matchFields:[]NodeSelectorRequirement
NodeSelectorRequirement: 1:key:string! 2:operator:string! 3:values:[]string
"""
POD_STATUS = """
PodStatus: 1:phase:string 2:conditions:[]PodCondition 3:message:string 4:reason:string 5:hostIP:string 6:podIP:string
    7:startTime:Time 8:containerStatuses:[]ContainerStatus 9:qosClass:string
    10:initContainerStatuses:[]ContainerStatus 11:nominatedNodeName:string 12:podIPs:[]PodIP
    13:ephemeralContainerStatuses:[]ContainerStatus 14:resize:string 15:resourceClaimStatuses:[]PodResourceClaimStatus
    16:hostIPs:[]HostIP 17:observedGeneration:int64 18:extendedResourceClaimStatus:PodExtendedResourceClaimStatus
    19:allocatedResources:{}Quantity 20:resources:ResourceRequirements
    21:nodeAllocatableResourceClaimStatuses:[]NodeAllocatableResourceClaimStatus
PodCondition: 1:type:string! 2:status:string! 3:lastProbeTime:Time 4:lastTransitionTime:Time 5:reason:string
    6:message:string 7:observedGeneration:int64
HostIP: 1:ip:string!
PodIP: 1:ip:string!
ContainerStatus: 1:name:string! 2:state:ContainerState 3:lastState:ContainerState 4:ready:bool! 5:restartCount:int32!
    6:image:string! 7:imageID:string! 8:containerID:string 9:started:bool! 10:allocatedResources:{}Quantity
    11:resources:ResourceRequirements 12:volumeMounts:[]VolumeMountStatus 13:user:ContainerUser
    14:allocatedResourcesStatus:[]ResourceStatus 15:stopSignal:string!
PodResourceClaimStatus: 1:name:string! 2:resourceClaimName:string!
PodExtendedResourceClaimStatus: 1:requestMappings:[]ContainerExtendedResourceRequest 2:resourceClaimName:string!
NodeAllocatableResourceClaimStatus: 1:resourceClaimName:string! 2:containers:[]string 3:resources:{}Quantity
ContainerState: 1:waiting:ContainerStateWaiting 2:running:ContainerStateRunning 3:terminated:ContainerStateTerminated
VolumeMountStatus: 1:name:string! 2:mountPath:string! 3:readOnly:bool 4:recursiveReadOnly:string!
    5:volumeStatus:VolumeStatus
ContainerUser: 1:linux:LinuxContainerUser
ResourceStatus: 1:name:string! 2:resources:[]ResourceHealth
ContainerExtendedResourceRequest: 1:containerName:string! 2:resourceName:string! 3:requestName:string!
ContainerStateWaiting: 1:reason:string 2:message:string
ContainerStateRunning: 1:startedAt:Time
ContainerStateTerminated: 1:exitCode:int32! 2:signal:int32 3:reason:string 4:message:string 5:startedAt:Time
    6:finishedAt:Time 7:containerID:string
VolumeStatus: 1:image:ImageVolumeStatus
LinuxContainerUser: 1:uid:int64! 2:gid:int64! 3:supplementalGroups:[]int64
ResourceHealth: 1:resourceID:string! 2:health:string 6:message:string!
ImageVolumeStatus: 1:imageRef:string
"""
