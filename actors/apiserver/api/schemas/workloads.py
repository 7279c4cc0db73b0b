"""Schemas of workloads: the core group, apps, batch; and of storage attachments."""

CORE_WORKLOADS = """
ReplicationController+: metadata:meta.ObjectMeta spec:ReplicationControllerSpec status:ReplicationControllerStatus
ReplicationControllerSpec: minReadySeconds:int32 replicas:int32 selector:{str}* template:PodTemplateSpec
ReplicationControllerStatus: availableReplicas:int32 conditions:[ReplicationControllerCondition]=type
    fullyLabeledReplicas:int32 observedGeneration:int64 readyReplicas:int32 replicas!:int32
ReplicationControllerCondition: lastTransitionTime:time message:str reason:str status!:str type!:str
PodTemplate+: metadata:meta.ObjectMeta template:PodTemplateSpec
PodTemplateSpec: metadata:meta.ObjectMeta spec:PodSpec
"""

APPS = """
ControllerRevision+: data:any metadata:meta.ObjectMeta revision!:int64
DaemonSet+: metadata:meta.ObjectMeta spec:DaemonSetSpec status:DaemonSetStatus
DaemonSetCondition: lastTransitionTime:time message:str reason:str status!:str type!:str
DaemonSetSpec: minReadySeconds:int32 revisionHistoryLimit:int32 selector!:meta.LabelSelector
    template!:core.PodTemplateSpec updateStrategy:DaemonSetUpdateStrategy
DaemonSetStatus: collisionCount:int32 conditions:[DaemonSetCondition]=type currentNumberScheduled!:int32
    desiredNumberScheduled!:int32 numberAvailable:int32 numberMisscheduled!:int32 numberReady!:int32
    numberUnavailable:int32 observedGeneration:int64 updatedNumberScheduled:int32
DaemonSetUpdateStrategy: rollingUpdate:RollingUpdateDaemonSet type:str
Deployment+: metadata:meta.ObjectMeta spec:DeploymentSpec status:DeploymentStatus
DeploymentCondition: lastTransitionTime:time lastUpdateTime:time message:str reason:str status!:str type!:str
DeploymentSpec: minReadySeconds:int32 paused:bool progressDeadlineSeconds:int32 replicas:int32
    revisionHistoryLimit:int32 selector!:meta.LabelSelector strategy:DeploymentStrategy^retain
    template!:core.PodTemplateSpec
DeploymentStatus: availableReplicas:int32 collisionCount:int32 conditions:[DeploymentCondition]=type
    observedGeneration:int64 readyReplicas:int32 replicas:int32 terminatingReplicas:int32 unavailableReplicas:int32
    updatedReplicas:int32
DeploymentStrategy: rollingUpdate:RollingUpdateDeployment type:str
ReplicaSet+: metadata:meta.ObjectMeta spec:ReplicaSetSpec status:ReplicaSetStatus
ReplicaSetCondition: lastTransitionTime:time message:str reason:str status!:str type!:str
ReplicaSetSpec: minReadySeconds:int32 replicas:int32 selector!:meta.LabelSelector template:core.PodTemplateSpec
ReplicaSetStatus: availableReplicas:int32 conditions:[ReplicaSetCondition]=type fullyLabeledReplicas:int32
    observedGeneration:int64 readyReplicas:int32 replicas!:int32 terminatingReplicas:int32
RollingUpdateDaemonSet: maxSurge:int-or-string maxUnavailable:int-or-string
RollingUpdateDeployment: maxSurge:int-or-string maxUnavailable:int-or-string
RollingUpdateStatefulSetStrategy: maxUnavailable:int-or-string partition:int32
StatefulSet+: metadata:meta.ObjectMeta spec:StatefulSetSpec status:StatefulSetStatus
StatefulSetCondition: lastTransitionTime:time message:str reason:str status!:str type!:str
StatefulSetOrdinals: start:int32
StatefulSetPersistentVolumeClaimRetentionPolicy: whenDeleted:str whenScaled:str
StatefulSetSpec: minReadySeconds:int32 ordinals:StatefulSetOrdinals
    persistentVolumeClaimRetentionPolicy:StatefulSetPersistentVolumeClaimRetentionPolicy podManagementPolicy:str
    replicas:int32 revisionHistoryLimit:int32 selector!:meta.LabelSelector serviceName:str
    template!:core.PodTemplateSpec updateStrategy:StatefulSetUpdateStrategy
    volumeClaimTemplates:[core.PersistentVolumeClaim]
StatefulSetStatus: availableReplicas:int32 collisionCount:int32 conditions:[StatefulSetCondition]=type
    currentReplicas:int32 currentRevision:str observedGeneration:int64 readyReplicas:int32 replicas!:int32
    updateRevision:str updatedReplicas:int32
StatefulSetUpdateStrategy: rollingUpdate:RollingUpdateStatefulSetStrategy type:str
"""

BATCH = """
CronJob+: metadata:meta.ObjectMeta spec!:CronJobSpec status:CronJobStatus
CronJobSpec: concurrencyPolicy:str failedJobsHistoryLimit:int32 jobTemplate!:JobTemplateSpec schedule!:str
    startingDeadlineSeconds:int64 successfulJobsHistoryLimit:int32 suspend:bool timeZone:str
CronJobStatus: active:[core.ObjectReference] lastScheduleTime:time lastSuccessfulTime:time
Job+: metadata:meta.ObjectMeta spec:JobSpec status:JobStatus
JobCondition: lastProbeTime:time lastTransitionTime:time message:str reason:str status!:str type!:str
JobSpec: activeDeadlineSeconds:int64 backoffLimit:int32 backoffLimitPerIndex:int32 completionMode:str
    completions:int32 managedBy:str manualSelector:bool maxFailedIndexes:int32 parallelism:int32
    podFailurePolicy:PodFailurePolicy podReplacementPolicy:str selector:meta.LabelSelector successPolicy:SuccessPolicy
    suspend:bool template!:core.PodTemplateSpec ttlSecondsAfterFinished:int32
JobStatus: active:int32 completedIndexes:str completionTime:time conditions:[JobCondition]^merge,type failed:int32
    failedIndexes:str ready:int32 startTime:time succeeded:int32 terminating:int32
    uncountedTerminatedPods:UncountedTerminatedPods
JobTemplateSpec: metadata:meta.ObjectMeta spec:JobSpec
PodFailurePolicy: rules!:[PodFailurePolicyRule]
PodFailurePolicyOnExitCodesRequirement: containerName:str operator!:str values!:[int32]=set^none
PodFailurePolicyOnPodConditionsPattern: status:str type!:str
PodFailurePolicyRule: action!:str onExitCodes:PodFailurePolicyOnExitCodesRequirement
    onPodConditions:[PodFailurePolicyOnPodConditionsPattern]
SuccessPolicy: rules!:[SuccessPolicyRule]
SuccessPolicyRule: succeededCount:int32 succeededIndexes:str
UncountedTerminatedPods: failed:[str]=set^none succeeded:[str]=set^none
"""

STORAGE_ATTACHMENTS = """
CSIStorageCapacity+: capacity:quantity maximumVolumeSize:quantity metadata:meta.ObjectMeta
    nodeTopology:meta.LabelSelector storageClassName!:str
VolumeAttachment+: metadata:meta.ObjectMeta spec!:VolumeAttachmentSpec status:VolumeAttachmentStatus
VolumeAttachmentSpec: attacher!:str nodeName!:str source!:VolumeAttachmentSource
VolumeAttachmentSource: inlineVolumeSpec:core.PersistentVolumeSpec persistentVolumeName:str
VolumeAttachmentStatus: attachError:VolumeError attached!:bool attachmentMetadata:{str} detachError:VolumeError
VolumeError: errorCode:int32 message:str time:time
"""
