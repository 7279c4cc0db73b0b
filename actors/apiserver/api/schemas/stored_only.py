"""Schemas of kinds that the API server stores and nothing here acts on: autoscalers, addresses, API services."""

AUTOSCALING_V2 = """
HorizontalPodAutoscaler+: metadata:meta.ObjectMeta spec!:HorizontalPodAutoscalerSpec
    status:HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerSpec: behavior:HorizontalPodAutoscalerBehavior maxReplicas!:int32 metrics:[MetricSpec]
    minReplicas:int32 scaleTargetRef!:CrossVersionObjectReference
HorizontalPodAutoscalerStatus: conditions:[HorizontalPodAutoscalerCondition]=type currentMetrics:[MetricStatus]
    currentReplicas:int32 desiredReplicas!:int32 lastScaleTime:time observedGeneration:int64
HorizontalPodAutoscalerBehavior: scaleDown:HPAScalingRules scaleUp:HPAScalingRules
MetricSpec: containerResource:ContainerResourceMetricSource external:ExternalMetricSource object:ObjectMetricSource
    pods:PodsMetricSource resource:ResourceMetricSource type!:str
CrossVersionObjectReference: apiVersion:str kind!:str name!:str
HorizontalPodAutoscalerCondition: lastTransitionTime:time message:str reason:str status!:str type!:str
MetricStatus: containerResource:ContainerResourceMetricStatus external:ExternalMetricStatus
    object:ObjectMetricStatus pods:PodsMetricStatus resource:ResourceMetricStatus type!:str
HPAScalingRules: policies:[HPAScalingPolicy] selectPolicy:str stabilizationWindowSeconds:int32 tolerance:quantity
ContainerResourceMetricSource: container!:str name!:str target!:MetricTarget
ExternalMetricSource: metric!:MetricIdentifier target!:MetricTarget
ObjectMetricSource: describedObject!:CrossVersionObjectReference metric!:MetricIdentifier target!:MetricTarget
PodsMetricSource: metric!:MetricIdentifier target!:MetricTarget
ResourceMetricSource: name!:str target!:MetricTarget
ContainerResourceMetricStatus: container!:str current!:MetricValueStatus name!:str
ExternalMetricStatus: current!:MetricValueStatus metric!:MetricIdentifier
ObjectMetricStatus: current!:MetricValueStatus describedObject!:CrossVersionObjectReference metric!:MetricIdentifier
PodsMetricStatus: current!:MetricValueStatus metric!:MetricIdentifier
ResourceMetricStatus: current!:MetricValueStatus name!:str
HPAScalingPolicy: periodSeconds!:int32 type!:str value!:int32
MetricTarget: averageUtilization:int32 averageValue:quantity type!:str value:quantity
MetricIdentifier: name!:str selector:meta.LabelSelector
MetricValueStatus: averageUtilization:int32 averageValue:quantity value:quantity
"""

APIREGISTRATION = """
APIService+: metadata:meta.ObjectMeta spec:APIServiceSpec status:APIServiceStatus
APIServiceSpec: caBundle:bytes group:str groupPriorityMinimum!:int32 insecureSkipTLSVerify:bool service:ServiceReference
    version:str versionPriority!:int32
APIServiceStatus: conditions:[APIServiceCondition]=type
APIServiceCondition: lastTransitionTime:time message:str reason:str status!:str type!:str
ServiceReference: name:str namespace:str port:int32
"""

ADDRESSES = """
IPAddress+: metadata:meta.ObjectMeta spec!:IPAddressSpec
IPAddressSpec: parentRef!:ParentReference
ParentReference: group:str name!:str namespace:str resource!:str
ServiceCIDR+: metadata:meta.ObjectMeta spec:ServiceCIDRSpec status:ServiceCIDRStatus
ServiceCIDRSpec: cidrs:[str]
ServiceCIDRStatus: conditions:[meta.Condition]=type
"""

VOLUME_CLASSES = """
VolumeAttributesClass+: driverName!:str metadata:meta.ObjectMeta parameters:{str}
"""

ZEROS = {
    "io.k8s.api.autoscaling.v2": """
HorizontalPodAutoscaler: metadata spec status
HorizontalPodAutoscalerSpec: scaleTargetRef maxReplicas ?minReplicas
HorizontalPodAutoscalerStatus: desiredReplicas currentMetrics ?observedGeneration
HorizontalPodAutoscalerCondition: type status lastTransitionTime
CrossVersionObjectReference: kind name
MetricSpec: type
MetricStatus: type
MetricIdentifier: name
MetricTarget: type ?averageUtilization
MetricValueStatus: ?averageUtilization
HPAScalingRules: ?stabilizationWindowSeconds ?selectPolicy
HPAScalingPolicy: type value periodSeconds
ContainerResourceMetricSource: name target container
ExternalMetricSource: metric target
ObjectMetricSource: describedObject target metric
PodsMetricSource: metric target
ResourceMetricSource: name target
ContainerResourceMetricStatus: name current container
ExternalMetricStatus: metric current
ObjectMetricStatus: metric current describedObject
PodsMetricStatus: metric current
ResourceMetricStatus: name current
""",
    "io.k8s.api.apiregistration.v1": """
APIService: metadata spec status
APIServiceSpec: groupPriorityMinimum versionPriority
APIServiceCondition: type status lastTransitionTime
ServiceReference: ?port
""",
}
