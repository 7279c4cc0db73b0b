"""resource.k8s.io: slices, classes, claims and templates in v1 and as older versions have them; rules; patches."""

RESOURCE = """
DeviceClass+: metadata:meta.ObjectMeta spec!:DeviceClassSpec
ResourceClaim+: metadata:meta.ObjectMeta spec!:ResourceClaimSpec status:ResourceClaimStatus
ResourceClaimTemplate+: metadata:meta.ObjectMeta spec!:ResourceClaimTemplateSpec
ResourceSlice+: metadata:meta.ObjectMeta spec!:ResourceSliceSpec
DeviceClassSpec: config:[DeviceClassConfiguration] extendedResourceName:str selectors:[DeviceSelector]
ResourceClaimSpec: devices:DeviceClaim
ResourceClaimStatus: allocation:AllocationResult devices:[AllocatedDeviceStatus]=driver,device,pool,shareID^none
    reservedFor:[ResourceClaimConsumerReference]=uid
ResourceClaimTemplateSpec: metadata:meta.ObjectMeta spec!:ResourceClaimSpec
ResourceSliceSpec: allNodes:bool devices:[Device] driver!:str nodeName:str nodeSelector:core.NodeSelector
    perDeviceNodeSelection:bool pool!:ResourcePool sharedCounters:[CounterSet]
DeviceClassConfiguration: opaque:OpaqueDeviceConfiguration
DeviceSelector: cel:CELDeviceSelector
DeviceClaim: config:[DeviceClaimConfiguration] constraints:[DeviceConstraint] requests:[DeviceRequest]
AllocationResult: allocationTimestamp:time devices:DeviceAllocationResult nodeSelector:core.NodeSelector
AllocatedDeviceStatus: conditions:[meta.Condition]=type^none data:any device!:str driver!:str
    networkData:NetworkDeviceData pool!:str shareID:str
ResourceClaimConsumerReference: apiGroup:str name!:str resource!:str uid!:str
Device: allNodes:bool allowMultipleAllocations:bool attributes:{DeviceAttribute} bindingConditions:[str]
    bindingFailureConditions:[str] bindsToNode:bool capacity:{DeviceCapacity}
    consumesCounters:[DeviceCounterConsumption] name!:str
    nodeAllocatableResourceMappings:{NodeAllocatableResourceMapping} nodeName:str nodeSelector:core.NodeSelector
    taints:[DeviceTaint]
ResourcePool: generation!:int64 name!:str resourceSliceCount!:int64
CounterSet: counters!:{Counter} name!:str
OpaqueDeviceConfiguration: driver!:str parameters!:any
CELDeviceSelector: expression!:str
DeviceClaimConfiguration: opaque:OpaqueDeviceConfiguration requests:[str]
DeviceConstraint: distinctAttribute:str matchAttribute:str requests:[str]
DeviceRequest: exactly:ExactDeviceRequest firstAvailable:[DeviceSubRequest] name!:str
DeviceAllocationResult: config:[DeviceAllocationConfiguration] results:[DeviceRequestAllocationResult]
NetworkDeviceData: hardwareAddress:str interfaceName:str ips:[str]
DeviceAttribute: bool:bool bools:[bool] int:int64 ints:[int64] string:str strings:[str] version:str versions:[str]
DeviceCapacity: requestPolicy:CapacityRequestPolicy value!:quantity
DeviceCounterConsumption: counterSet!:str counters!:{Counter}
NodeAllocatableResourceMapping: allocationMultiplier:quantity capacityKey:str
DeviceTaint: effect!:str key!:str timeAdded:time value:str
Counter: value!:quantity
ExactDeviceRequest: adminAccess:bool allocationMode:str capacity:CapacityRequirements count:int64 deviceClassName!:str
    selectors:[DeviceSelector] tolerations:[DeviceToleration]
DeviceSubRequest: allocationMode:str capacity:CapacityRequirements count:int64 deviceClassName!:str name!:str
    selectors:[DeviceSelector] tolerations:[DeviceToleration]
DeviceAllocationConfiguration: opaque:OpaqueDeviceConfiguration requests:[str] source!:str
DeviceRequestAllocationResult: adminAccess:bool bindingConditions:[str] bindingFailureConditions:[str]
    consumedCapacity:{quantity} device!:str driver!:str pool!:str request!:str shareID:str
    tolerations:[DeviceToleration]
CapacityRequestPolicy: default:quantity validRange:CapacityRequestPolicyRange validValues:[quantity]
CapacityRequirements: requests:{quantity}
DeviceToleration: effect:str key:str operator:str tolerationSeconds:int64 value:str
CapacityRequestPolicyRange: max:quantity min!:quantity step:quantity
"""

RULES = """
DeviceTaintRule+: metadata:meta.ObjectMeta spec!:DeviceTaintRuleSpec status:DeviceTaintRuleStatus
DeviceTaintRuleSpec: deviceSelector:DeviceTaintSelector taint!:%sDeviceTaint
DeviceTaintRuleStatus: conditions:[meta.Condition]=type
DeviceTaintSelector: device:str driver:str pool:str
"""
RESOURCE_BETA2 = RESOURCE + RULES.removeprefix("\n") % ""

_FLAT = """DeviceRequest: adminAccess:bool allocationMode:str capacity:CapacityRequirements count:int64
    deviceClassName:str firstAvailable:[DeviceSubRequest] name!:str selectors:[DeviceSelector]
    tolerations:[DeviceToleration]"""
RESOURCE_BETA1 = (
    RESOURCE.replace("DeviceRequest: exactly:ExactDeviceRequest firstAvailable:[DeviceSubRequest] name!:str", _FLAT)
    .replace("\nDevice: ", "\nDevice: basic:BasicDevice name!:str\nBasicDevice: ")
    .replace("consumesCounters:[DeviceCounterConsumption] name!:str", "consumesCounters:[DeviceCounterConsumption]")
)

RESOURCE_ALPHA = """
ResourceSlicePatch+: metadata:meta.ObjectMeta spec!:ResourceSlicePatchSpec
ResourceSlicePatchSpec: devices!:DevicePatch
DevicePatch: attributes:{NullableDeviceAttribute} capacity:{resource.DeviceCapacity} filter:DevicePatchFilter
    priority:int32 taints:[resource.DeviceTaint]
DevicePatchFilter: device:str deviceClassName:str driver:str pool:str selectors:[resource.DeviceSelector]
NullableDeviceAttribute: bool:bool int:int64 null:NullValue string:str version:str
NullValue:
"""
RESOURCE_ALPHA += RULES.removeprefix("\n") % "resource."
