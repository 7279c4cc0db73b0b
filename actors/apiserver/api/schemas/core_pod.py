"""core/v1: the pod around its containers."""

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
