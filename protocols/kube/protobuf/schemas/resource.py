"""resource/v1: slices, classes, claims, templates. ResourceSlicePatch is in no release: it has no numbers."""

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
