"""resource.k8s.io: slices, classes, claims and templates in v1 and v1beta2, and where v1beta1 differs; rules.

ResourceSlicePatch is in no release: it has no numbers.
"""

RESOURCE = """
ResourceSlice: 1:metadata:meta.ObjectMeta 2:spec:ResourceSliceSpec
DeviceClass: 1:metadata:meta.ObjectMeta 2:spec:DeviceClassSpec
ResourceClaim: 1:metadata:meta.ObjectMeta 2:spec:ResourceClaimSpec 3:status:ResourceClaimStatus
ResourceClaimTemplate: 1:metadata:meta.ObjectMeta 2:spec:ResourceClaimTemplateSpec
ResourceSliceSpec: 1:driver:string! 2:pool:ResourcePool 3:nodeName:string! 4:nodeSelector:core.NodeSelector
    5:allNodes:bool! 6:devices:[]Device 7:perDeviceNodeSelection:bool! 8:sharedCounters:[]CounterSet
DeviceClassSpec: 1:selectors:[]DeviceSelector 2:config:[]DeviceClassConfiguration 4:extendedResourceName:string!
ResourceClaimSpec: 1:devices:DeviceClaim
ResourceClaimStatus: 1:allocation:AllocationResult 2:reservedFor:[]ResourceClaimConsumerReference
    4:devices:[]AllocatedDeviceStatus
ResourceClaimTemplateSpec: 1:metadata:meta.ObjectMeta 2:spec:ResourceClaimSpec
ResourcePool: 1:name:string! 2:generation:int64! 3:resourceSliceCount:int64!
Device: 1:name:string! 2:attributes:{}DeviceAttribute 3:capacity:{}DeviceCapacity
    4:consumesCounters:[]DeviceCounterConsumption 5:nodeName:string! 6:nodeSelector:core.NodeSelector 7:allNodes:bool!
    8:taints:[]DeviceTaint 9:bindsToNode:bool! 10:bindingConditions:[]string 11:bindingFailureConditions:[]string
    12:allowMultipleAllocations:bool! 13:nodeAllocatableResourceMappings:{}NodeAllocatableResourceMapping
CounterSet: 1:name:string! 2:counters:{}Counter
DeviceSelector: 1:cel:CELDeviceSelector
DeviceClassConfiguration: 1:deviceConfiguration:DeviceConfiguration&
DeviceClaim: 1:requests:[]DeviceRequest 2:constraints:[]DeviceConstraint 3:config:[]DeviceClaimConfiguration
AllocationResult: 1:devices:DeviceAllocationResult 3:nodeSelector:core.NodeSelector 5:allocationTimestamp:Time
ResourceClaimConsumerReference: 1:apiGroup:string 3:resource:string! 4:name:string! 5:uid:string!
AllocatedDeviceStatus: 1:driver:string! 2:pool:string! 3:device:string! 4:conditions:[]meta.Condition 5:data:Raw
    6:networkData:NetworkDeviceData 7:shareID:string!
DeviceAttribute: 2:int:int64! 3:bool:bool! 4:string:string! 5:version:string! 6:ints:[]int64 7:bools:[]bool
    8:strings:[]string 9:versions:[]string
DeviceCapacity: 1:value:Quantity 2:requestPolicy:CapacityRequestPolicy
DeviceCounterConsumption: 1:counterSet:string! 2:counters:{}Counter
DeviceTaint: 1:key:string! 2:value:string 3:effect:string! 4:timeAdded:Time
NodeAllocatableResourceMapping: 1:capacityKey:string! 2:allocationMultiplier:Quantity
Counter: 1:value:Quantity
CELDeviceSelector: 1:expression:string!
DeviceConfiguration: 1:opaque:OpaqueDeviceConfiguration
DeviceRequest: 1:name:string! 2:exactly:ExactDeviceRequest 3:firstAvailable:[]DeviceSubRequest
DeviceConstraint: 1:requests:[]string 2:matchAttribute:string! 3:distinctAttribute:string!
DeviceClaimConfiguration: 1:requests:[]string 2:deviceConfiguration:DeviceConfiguration&
DeviceAllocationResult: 1:results:[]DeviceRequestAllocationResult 2:config:[]DeviceAllocationConfiguration
NetworkDeviceData: 1:interfaceName:string 2:ips:[]string 3:hardwareAddress:string
CapacityRequestPolicy: 1:default:Quantity 3:validValues:[]Quantity 4:validRange:CapacityRequestPolicyRange
OpaqueDeviceConfiguration: 1:driver:string! 2:parameters:Raw
ExactDeviceRequest: 1:deviceClassName:string! 2:selectors:[]DeviceSelector 3:allocationMode:string 4:count:int64
    5:adminAccess:bool! 6:tolerations:[]DeviceToleration 7:capacity:CapacityRequirements
DeviceSubRequest: 1:name:string! 2:deviceClassName:string! 3:selectors:[]DeviceSelector 4:allocationMode:string
    5:count:int64 6:tolerations:[]DeviceToleration 7:capacity:CapacityRequirements
DeviceRequestAllocationResult: 1:request:string! 2:driver:string! 3:pool:string! 4:device:string! 5:adminAccess:bool!
    6:tolerations:[]DeviceToleration 7:bindingConditions:[]string 8:bindingFailureConditions:[]string
    9:shareID:string! 10:consumedCapacity:{}Quantity
DeviceAllocationConfiguration: 1:source:string! 2:requests:[]string 3:deviceConfiguration:DeviceConfiguration&
CapacityRequestPolicyRange: 1:min:Quantity 2:max:Quantity 3:step:Quantity
DeviceToleration: 1:key:string 2:operator:string 3:value:string 4:effect:string 5:tolerationSeconds:int64!
CapacityRequirements: 1:requests:{}Quantity
"""

RULES = """DeviceTaintRule: 1:metadata:meta.ObjectMeta 2:spec:DeviceTaintRuleSpec 3:status:DeviceTaintRuleStatus
DeviceTaintRuleSpec: 1:deviceSelector:DeviceTaintSelector 2:taint:DeviceTaint
DeviceTaintRuleStatus: 1:conditions:[]meta.Condition
DeviceTaintSelector: 2:driver:string 3:pool:string 4:device:string
"""
RESOURCE += RULES


def _beta1() -> str:
    """v1's text with the messages that have other fields."""
    other = dict(line.split(":", 1) for line in _BETA1.strip().replace("\n ", " ").split("\n"))
    lines = RESOURCE.strip().replace("\n ", " ").split("\n")
    kept = [line for line in lines if line.split(":", 1)[0] not in other]
    return "\n" + "\n".join([*kept, *(f"{name}:{fields}" for name, fields in other.items())]) + "\n"


_BETA1 = """
Device: 1:name:string! 2:basic:BasicDevice
BasicDevice: 1:attributes:{}DeviceAttribute 2:capacity:{}DeviceCapacity 3:consumesCounters:[]DeviceCounterConsumption
    4:nodeName:string! 5:nodeSelector:core.NodeSelector 6:allNodes:bool! 7:taints:[]DeviceTaint 8:bindsToNode:bool!
    9:bindingConditions:[]string 10:bindingFailureConditions:[]string 11:allowMultipleAllocations:bool!
    12:nodeAllocatableResourceMappings:{}NodeAllocatableResourceMapping
DeviceRequest: 1:name:string! 2:deviceClassName:string! 3:selectors:[]DeviceSelector 4:allocationMode:string
    5:count:int64 6:adminAccess:bool! 7:firstAvailable:[]DeviceSubRequest 8:tolerations:[]DeviceToleration
    9:capacity:CapacityRequirements
DeviceSubRequest: 1:name:string! 2:deviceClassName:string! 3:selectors:[]DeviceSelector 4:allocationMode:string
    5:count:int64 7:tolerations:[]DeviceToleration 8:capacity:CapacityRequirements
"""
RESOURCE_BETA1 = _beta1()
