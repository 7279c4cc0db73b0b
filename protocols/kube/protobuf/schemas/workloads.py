"""apps, batch and autoscaling: workloads and their scale."""

APPS = """
StatefulSet: 1:metadata:meta.ObjectMeta 2:spec:StatefulSetSpec 3:status:StatefulSetStatus
Deployment: 1:metadata:meta.ObjectMeta 2:spec:DeploymentSpec 3:status:DeploymentStatus
DaemonSet: 1:metadata:meta.ObjectMeta 2:spec:DaemonSetSpec 3:status:DaemonSetStatus
ReplicaSet: 1:metadata:meta.ObjectMeta 2:spec:ReplicaSetSpec 3:status:ReplicaSetStatus
ControllerRevision: 1:metadata:meta.ObjectMeta 2:data:Raw 3:revision:int64!
StatefulSetSpec: 1:replicas:int32! 2:selector:meta.LabelSelector 3:template:core.PodTemplateSpec
    4:volumeClaimTemplates:[]core.PersistentVolumeClaim 5:serviceName:string! 6:podManagementPolicy:string
    7:updateStrategy:StatefulSetUpdateStrategy 8:revisionHistoryLimit:int32! 9:minReadySeconds:int32
    10:persistentVolumeClaimRetentionPolicy:StatefulSetPersistentVolumeClaimRetentionPolicy
    11:ordinals:StatefulSetOrdinals
StatefulSetStatus: 1:observedGeneration:int64 2:replicas:int32! 3:readyReplicas:int32 4:currentReplicas:int32
    5:updatedReplicas:int32 6:currentRevision:string 7:updateRevision:string 9:collisionCount:int32!
    10:conditions:[]StatefulSetCondition 11:availableReplicas:int32!
DeploymentSpec: 1:replicas:int32! 2:selector:meta.LabelSelector 3:template:core.PodTemplateSpec
    4:strategy:DeploymentStrategy 5:minReadySeconds:int32 6:revisionHistoryLimit:int32! 7:paused:bool
    9:progressDeadlineSeconds:int32!
DeploymentStatus: 1:observedGeneration:int64 2:replicas:int32 3:updatedReplicas:int32 4:availableReplicas:int32
    5:unavailableReplicas:int32 6:conditions:[]DeploymentCondition 7:readyReplicas:int32 8:collisionCount:int32!
    9:terminatingReplicas:int32!
DaemonSetSpec: 1:selector:meta.LabelSelector 2:template:core.PodTemplateSpec 3:updateStrategy:DaemonSetUpdateStrategy
    4:minReadySeconds:int32 6:revisionHistoryLimit:int32!
DaemonSetStatus: 1:currentNumberScheduled:int32! 2:numberMisscheduled:int32! 3:desiredNumberScheduled:int32!
    4:numberReady:int32! 5:observedGeneration:int64 6:updatedNumberScheduled:int32 7:numberAvailable:int32
    8:numberUnavailable:int32 9:collisionCount:int32! 10:conditions:[]DaemonSetCondition
ReplicaSetSpec: 1:replicas:int32! 2:selector:meta.LabelSelector 3:template:core.PodTemplateSpec
    4:minReadySeconds:int32
ReplicaSetStatus: 1:replicas:int32! 2:fullyLabeledReplicas:int32 3:observedGeneration:int64 4:readyReplicas:int32
    5:availableReplicas:int32 6:conditions:[]ReplicaSetCondition 7:terminatingReplicas:int32!
StatefulSetUpdateStrategy: 1:type:string 2:rollingUpdate:RollingUpdateStatefulSetStrategy
StatefulSetPersistentVolumeClaimRetentionPolicy: 1:whenDeleted:string 2:whenScaled:string
StatefulSetOrdinals: 1:start:int32!
StatefulSetCondition: 1:type:string! 2:status:string! 3:lastTransitionTime:Time 4:reason:string 5:message:string
DeploymentStrategy: 1:type:string 2:rollingUpdate:RollingUpdateDeployment
DeploymentCondition: 1:type:string! 2:status:string! 4:reason:string 5:message:string 6:lastUpdateTime:Time
    7:lastTransitionTime:Time
DaemonSetUpdateStrategy: 1:type:string 2:rollingUpdate:RollingUpdateDaemonSet
DaemonSetCondition: 1:type:string! 2:status:string! 3:lastTransitionTime:Time 4:reason:string 5:message:string
ReplicaSetCondition: 1:type:string! 2:status:string! 3:lastTransitionTime:Time 4:reason:string 5:message:string
RollingUpdateStatefulSetStrategy: 1:partition:int32! 2:maxUnavailable:IntOrString
RollingUpdateDeployment: 1:maxUnavailable:IntOrString 2:maxSurge:IntOrString
RollingUpdateDaemonSet: 1:maxUnavailable:IntOrString 2:maxSurge:IntOrString
"""
BATCH = """
Job: 1:metadata:meta.ObjectMeta 2:spec:JobSpec 3:status:JobStatus
CronJob: 1:metadata:meta.ObjectMeta 2:spec:CronJobSpec 3:status:CronJobStatus
JobSpec: 1:parallelism:int32! 2:completions:int32! 3:activeDeadlineSeconds:int64! 4:selector:meta.LabelSelector
    5:manualSelector:bool! 6:template:core.PodTemplateSpec 7:backoffLimit:int32! 8:ttlSecondsAfterFinished:int32!
    9:completionMode:string! 10:suspend:bool! 11:podFailurePolicy:PodFailurePolicy 12:backoffLimitPerIndex:int32!
    13:maxFailedIndexes:int32! 14:podReplacementPolicy:string! 15:managedBy:string! 16:successPolicy:SuccessPolicy
JobStatus: 1:conditions:[]JobCondition 2:startTime:Time 3:completionTime:Time 4:active:int32 5:succeeded:int32
    6:failed:int32 7:completedIndexes:string 8:uncountedTerminatedPods:UncountedTerminatedPods 9:ready:int32!
    10:failedIndexes:string! 11:terminating:int32!
CronJobSpec: 1:schedule:string! 2:startingDeadlineSeconds:int64! 3:concurrencyPolicy:string 4:suspend:bool!
    5:jobTemplate:JobTemplateSpec 6:successfulJobsHistoryLimit:int32! 7:failedJobsHistoryLimit:int32!
    8:timeZone:string!
CronJobStatus: 1:active:[]core.ObjectReference 4:lastScheduleTime:Time 5:lastSuccessfulTime:Time
PodFailurePolicy: 1:rules:[]PodFailurePolicyRule
SuccessPolicy: 1:rules:[]SuccessPolicyRule
JobCondition: 1:type:string! 2:status:string! 3:lastProbeTime:Time 4:lastTransitionTime:Time 5:reason:string
    6:message:string
UncountedTerminatedPods: 1:succeeded:[]string 2:failed:[]string
JobTemplateSpec: 1:metadata:meta.ObjectMeta 2:spec:JobSpec
PodFailurePolicyRule: 1:action:string! 2:onExitCodes:PodFailurePolicyOnExitCodesRequirement
    3:onPodConditions:[]PodFailurePolicyOnPodConditionsPattern
SuccessPolicyRule: 1:succeededIndexes:string! 2:succeededCount:int32!
PodFailurePolicyOnExitCodesRequirement: 1:containerName:string! 2:operator:string! 3:values:[]int32
PodFailurePolicyOnPodConditionsPattern: 1:type:string! 2:status:string!
"""
AUTOSCALING = """
HorizontalPodAutoscaler: 1:metadata:meta.ObjectMeta 2:spec:HorizontalPodAutoscalerSpec
    3:status:HorizontalPodAutoscalerStatus
Scale: 1:metadata:meta.ObjectMeta 2:spec:ScaleSpec 3:status:ScaleStatus
HorizontalPodAutoscalerSpec: 1:scaleTargetRef:CrossVersionObjectReference 2:minReplicas:int32! 3:maxReplicas:int32!
    4:targetCPUUtilizationPercentage:int32!
HorizontalPodAutoscalerStatus: 1:observedGeneration:int64! 2:lastScaleTime:Time 3:currentReplicas:int32!
    4:desiredReplicas:int32! 5:currentCPUUtilizationPercentage:int32!
ScaleSpec: 1:replicas:int32
ScaleStatus: 1:replicas:int32! 2:selector:string
CrossVersionObjectReference: 1:kind:string! 2:name:string! 3:apiVersion:string
"""
AUTOSCALING_V2 = """
HorizontalPodAutoscaler: 1:metadata:meta.ObjectMeta 2:spec:HorizontalPodAutoscalerSpec
    3:status:HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerSpec: 1:scaleTargetRef:CrossVersionObjectReference 2:minReplicas:int32! 3:maxReplicas:int32!
    4:metrics:[]MetricSpec 5:behavior:HorizontalPodAutoscalerBehavior
HorizontalPodAutoscalerStatus: 1:observedGeneration:int64! 2:lastScaleTime:Time 3:currentReplicas:int32
    4:desiredReplicas:int32! 5:currentMetrics:[]MetricStatus 6:conditions:[]HorizontalPodAutoscalerCondition
CrossVersionObjectReference: 1:kind:string! 2:name:string! 3:apiVersion:string
MetricSpec: 1:type:string! 2:object:ObjectMetricSource 3:pods:PodsMetricSource 4:resource:ResourceMetricSource
    5:external:ExternalMetricSource 7:containerResource:ContainerResourceMetricSource
HorizontalPodAutoscalerBehavior: 1:scaleUp:HPAScalingRules 2:scaleDown:HPAScalingRules
MetricStatus: 1:type:string! 2:object:ObjectMetricStatus 3:pods:PodsMetricStatus 4:resource:ResourceMetricStatus
    5:external:ExternalMetricStatus 7:containerResource:ContainerResourceMetricStatus
HorizontalPodAutoscalerCondition: 1:type:string! 2:status:string! 3:lastTransitionTime:Time 4:reason:string
    5:message:string
ObjectMetricSource: 1:describedObject:CrossVersionObjectReference 2:target:MetricTarget 3:metric:MetricIdentifier
PodsMetricSource: 1:metric:MetricIdentifier 2:target:MetricTarget
ResourceMetricSource: 1:name:string! 2:target:MetricTarget
ExternalMetricSource: 1:metric:MetricIdentifier 2:target:MetricTarget
ContainerResourceMetricSource: 1:name:string! 2:target:MetricTarget 3:container:string!
HPAScalingRules: 1:selectPolicy:string! 2:policies:[]HPAScalingPolicy 3:stabilizationWindowSeconds:int32!
    4:tolerance:Quantity
ObjectMetricStatus: 1:metric:MetricIdentifier 2:current:MetricValueStatus
    3:describedObject:CrossVersionObjectReference
PodsMetricStatus: 1:metric:MetricIdentifier 2:current:MetricValueStatus
ResourceMetricStatus: 1:name:string! 2:current:MetricValueStatus
ExternalMetricStatus: 1:metric:MetricIdentifier 2:current:MetricValueStatus
ContainerResourceMetricStatus: 1:name:string! 2:current:MetricValueStatus 3:container:string!
MetricTarget: 1:type:string! 2:value:Quantity 3:averageValue:Quantity 4:averageUtilization:int32!
MetricIdentifier: 1:name:string! 2:selector:meta.LabelSelector
HPAScalingPolicy: 1:type:string! 2:value:int32! 3:periodSeconds:int32!
MetricValueStatus: 1:value:Quantity 2:averageValue:Quantity 3:averageUtilization:int32!
"""
