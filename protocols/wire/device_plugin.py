"""The device plugin API's methods and constants (deviceplugin_v1beta1.proto)."""

from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.methods import Method

VERSION = "v1beta1"
PRE_START_TIMEOUT = 30.0

_PLUGIN = "v1beta1.DevicePlugin"

REGISTER = Method("v1beta1.Registration", "Register", pb.RegisterRequest, pb.Empty)
GET_OPTIONS = Method(_PLUGIN, "GetDevicePluginOptions", pb.Empty, pb.DevicePluginOptions)
LIST_AND_WATCH = Method(_PLUGIN, "ListAndWatch", pb.Empty, pb.ListAndWatchResponse)
GET_PREFERRED = Method(_PLUGIN, "GetPreferredAllocation", pb.PreferredAllocationRequest, pb.PreferredAllocationResponse)
ALLOCATE = Method(_PLUGIN, "Allocate", pb.AllocateRequest, pb.AllocateResponse)
PRE_START = Method(_PLUGIN, "PreStartContainer", pb.PreStartContainerRequest, pb.PreStartContainerResponse)
