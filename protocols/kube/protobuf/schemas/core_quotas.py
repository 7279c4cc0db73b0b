"""core/v1: templates, replication, limits and quotas; storage objects beside classes."""

CORE_QUOTAS = """
PodTemplate: 1:metadata:meta.ObjectMeta 2:template:PodTemplateSpec
ReplicationController: 1:metadata:meta.ObjectMeta 2:spec:ReplicationControllerSpec
    3:status:ReplicationControllerStatus
LimitRange: 1:metadata:meta.ObjectMeta 2:spec:LimitRangeSpec
ResourceQuota: 1:metadata:meta.ObjectMeta 2:spec:ResourceQuotaSpec 3:status:ResourceQuotaStatus
ComponentStatus: 1:metadata:meta.ObjectMeta 2:conditions:[]ComponentCondition
PodTemplateSpec: 1:metadata:meta.ObjectMeta 2:spec:PodSpec
ReplicationControllerSpec: 1:replicas:int32! 2:selector:{}string 3:template:PodTemplateSpec 4:minReadySeconds:int32
ReplicationControllerStatus: 1:replicas:int32! 2:fullyLabeledReplicas:int32 3:observedGeneration:int64
    4:readyReplicas:int32 5:availableReplicas:int32 6:conditions:[]ReplicationControllerCondition
LimitRangeSpec: 1:limits:[]LimitRangeItem
ResourceQuotaSpec: 1:hard:{}Quantity 2:scopes:[]string 3:scopeSelector:ScopeSelector
ResourceQuotaStatus: 1:hard:{}Quantity 2:used:{}Quantity
ComponentCondition: 1:type:string! 2:status:string! 3:message:string 4:error:string
ReplicationControllerCondition: 1:type:string! 2:status:string! 3:lastTransitionTime:Time 4:reason:string
    5:message:string
LimitRangeItem: 1:type:string! 2:max:{}Quantity 3:min:{}Quantity 4:default:{}Quantity 5:defaultRequest:{}Quantity
    6:maxLimitRequestRatio:{}Quantity
ScopeSelector: 1:matchExpressions:[]ScopedResourceSelectorRequirement
ScopedResourceSelectorRequirement: 1:scopeName:string! 2:operator:string! 3:values:[]string
"""
ATTACHMENTS = """
VolumeAttachment: 1:metadata:meta.ObjectMeta 2:spec:VolumeAttachmentSpec 3:status:VolumeAttachmentStatus
CSIStorageCapacity: 1:metadata:meta.ObjectMeta 2:nodeTopology:meta.LabelSelector 3:storageClassName:string!
    4:capacity:Quantity 5:maximumVolumeSize:Quantity
VolumeAttributesClass: 1:metadata:meta.ObjectMeta 2:driverName:string! 3:parameters:{}string
VolumeAttachmentSpec: 1:attacher:string! 2:source:VolumeAttachmentSource 3:nodeName:string!
VolumeAttachmentStatus: 1:attached:bool! 2:attachmentMetadata:{}string 3:attachError:VolumeError
    4:detachError:VolumeError
VolumeAttachmentSource: 1:persistentVolumeName:string! 2:inlineVolumeSpec:core.PersistentVolumeSpec
VolumeError: 1:time:Time 2:message:string 3:errorCode:int32!
"""
