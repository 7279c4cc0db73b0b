"""The device plugin API's methods and constants (deviceplugin_v1beta1.proto)."""

from typing import Any

from protocols.wire import deviceplugin_v1beta1_pb2 as device_plugin
from protocols.wire import dra_v1_pb2 as v1
from protocols.wire import dra_v1beta1_pb2 as v1beta1
from protocols.wire import drahealth_v1_pb2 as health_v1
from protocols.wire import drahealth_v1alpha1_pb2 as health_v1alpha1
from protocols.wire import nodehealth_v1alpha1_pb2 as node_health
from protocols.wire import pluginregistration_v1_pb2 as registration
from protocols.wire.methods import Method

VERSION = "v1beta1"

_PLUGIN = "v1beta1.DevicePlugin"

REGISTER = Method("v1beta1.Registration", "Register", device_plugin.RegisterRequest, device_plugin.Empty)
GET_OPTIONS = Method(_PLUGIN, "GetDevicePluginOptions", device_plugin.Empty, device_plugin.DevicePluginOptions)
LIST_AND_WATCH = Method(_PLUGIN, "ListAndWatch", device_plugin.Empty, device_plugin.ListAndWatchResponse)
GET_PREFERRED = Method(
    _PLUGIN,
    "GetPreferredAllocation",
    device_plugin.PreferredAllocationRequest,
    device_plugin.PreferredAllocationResponse,
)
ALLOCATE = Method(_PLUGIN, "Allocate", device_plugin.AllocateRequest, device_plugin.AllocateResponse)
PRE_START = Method(
    _PLUGIN, "PreStartContainer", device_plugin.PreStartContainerRequest, device_plugin.PreStartContainerResponse
)


REGISTRATION = "pluginregistration.Registration"
GET_INFO = Method(REGISTRATION, "GetInfo", registration.InfoRequest, registration.PluginInfo)
NOTIFY = Method(
    REGISTRATION, "NotifyRegistrationStatus", registration.RegistrationStatus, registration.RegistrationStatusResponse
)

DRA_PLUGIN, DEVICE_PLUGIN = "DRAPlugin", "DevicePlugin"
"""Types of plugins, as GetInfo names them."""

_V1 = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
_V1BETA1 = "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin"

DRA_V1, DRA_V1BETA1 = "v1.DRAPlugin", "v1beta1.DRAPlugin"
"""Names of the services in GetInfo; not their names on the wire."""

PREPARE: dict[str, Method[Any, Any]] = {
    DRA_V1: Method(_V1, "NodePrepareResources", v1.NodePrepareResourcesRequest, v1.NodePrepareResourcesResponse),
    DRA_V1BETA1: Method(
        _V1BETA1, "NodePrepareResources", v1beta1.NodePrepareResourcesRequest, v1beta1.NodePrepareResourcesResponse
    ),
}
UNPREPARE: dict[str, Method[Any, Any]] = {
    DRA_V1: Method(_V1, "NodeUnprepareResources", v1.NodeUnprepareResourcesRequest, v1.NodeUnprepareResourcesResponse),
    DRA_V1BETA1: Method(
        _V1BETA1,
        "NodeUnprepareResources",
        v1beta1.NodeUnprepareResourcesRequest,
        v1beta1.NodeUnprepareResourcesResponse,
    ),
}

HEALTH_V1, HEALTH_V1ALPHA1 = "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"
NODE_HEALTH = "v1alpha1.NodeHealth"

WATCH_RESOURCES: dict[str, Method[Any, Any]] = {
    HEALTH_V1: Method(
        HEALTH_V1, "NodeWatchResources", health_v1.NodeWatchResourcesRequest, health_v1.NodeWatchResourcesResponse
    ),
    HEALTH_V1ALPHA1: Method(
        HEALTH_V1ALPHA1,
        "NodeWatchResources",
        health_v1alpha1.NodeWatchResourcesRequest,
        health_v1alpha1.NodeWatchResourcesResponse,
    ),
}
WATCH_DEVICES_STATUS = Method(NODE_HEALTH, "WatchDevicesStatus", node_health.Empty, node_health.DevicesStatusResponse)
