"""Schemas of workloads and attachments, which kube-scheduler and kube-controller-manager follow."""

CORE_WORKLOADS = """
ReplicationController+: metadata:meta.ObjectMeta spec:ReplicationControllerSpec status:ReplicationControllerStatus
ReplicationControllerSpec: minReadySeconds:int32 replicas:int32 selector:{str}* template:PodTemplateSpec
ReplicationControllerStatus: availableReplicas:int32 conditions:[ReplicationControllerCondition]=type
    fullyLabeledReplicas:int32 observedGeneration:int64 readyReplicas:int32 replicas!:int32
ReplicationControllerCondition: lastTransitionTime:time message:str reason:str status!:str type!:str
PodTemplateSpec: metadata:meta.ObjectMeta spec:PodSpec
"""

APPS = """
ReplicaSet+: metadata:meta.ObjectMeta spec:ReplicaSetSpec status:ReplicaSetStatus
ReplicaSetSpec: minReadySeconds:int32 replicas:int32 selector!:meta.LabelSelector template:core.PodTemplateSpec
ReplicaSetStatus: availableReplicas:int32 conditions:[ReplicaSetCondition]=type fullyLabeledReplicas:int32
    observedGeneration:int64 readyReplicas:int32 replicas!:int32 terminatingReplicas:int32
ReplicaSetCondition: lastTransitionTime:time message:str reason:str status!:str type!:str
StatefulSet+: metadata:meta.ObjectMeta spec:StatefulSetSpec status:StatefulSetStatus
StatefulSetSpec: minReadySeconds:int32 ordinals:StatefulSetOrdinals
    persistentVolumeClaimRetentionPolicy:StatefulSetPersistentVolumeClaimRetentionPolicy podManagementPolicy:str
    replicas:int32 revisionHistoryLimit:int32 selector!:meta.LabelSelector serviceName:str
    template!:core.PodTemplateSpec updateStrategy:StatefulSetUpdateStrategy
    volumeClaimTemplates:[core.PersistentVolumeClaim]
StatefulSetStatus: availableReplicas:int32 collisionCount:int32 conditions:[StatefulSetCondition]=type
    currentReplicas:int32 currentRevision:str observedGeneration:int64 readyReplicas:int32 replicas!:int32
    updateRevision:str updatedReplicas:int32
StatefulSetCondition: lastTransitionTime:time message:str reason:str status!:str type!:str
StatefulSetOrdinals: start:int32
StatefulSetUpdateStrategy: rollingUpdate:RollingUpdateStatefulSetStrategy type:str
RollingUpdateStatefulSetStrategy: maxUnavailable:int-or-string partition:int32
StatefulSetPersistentVolumeClaimRetentionPolicy: whenDeleted:str whenScaled:str
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
