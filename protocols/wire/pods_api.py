"""The pods API's methods (pods_v1alpha1.proto)."""

from protocols.wire import pods_v1alpha1_pb2 as pb
from protocols.wire.methods import Method

_PODS = "v1alpha1.Pods"

WATCH_PODS = Method(_PODS, "WatchPods", pb.WatchPodsRequest, pb.WatchPodsEvent)
LIST_PODS = Method(_PODS, "ListPods", pb.ListPodsRequest, pb.ListPodsResponse)
GET_POD = Method(_PODS, "GetPod", pb.GetPodRequest, pb.GetPodResponse)
