"""The pod resources API's methods and metadata keys (podresources_v1.proto, podresources_v1alpha1.proto)."""

from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire import podresources_v1alpha1_pb2 as v1alpha1
from protocols.wire import pods_v1alpha1_pb2 as pb
from protocols.wire.methods import Method

_LISTER = "v1.PodResourcesLister"

LIST = Method(_LISTER, "List", v1.ListPodResourcesRequest, v1.ListPodResourcesResponse)
GET = Method(_LISTER, "Get", v1.GetPodResourcesRequest, v1.GetPodResourcesResponse)
GET_ALLOCATABLE = Method(
    _LISTER, "GetAllocatableResources", v1.AllocatableResourcesRequest, v1.AllocatableResourcesResponse
)
LIST_AND_WATCH = Method(
    _LISTER, "ListAndWatch", v1.ListAndWatchPodResourcesRequest, v1.ListAndWatchPodResourcesResponse
)
LIST_AND_WATCH_ALLOCATABLE = Method(
    _LISTER,
    "ListAndWatchAllocatableResources",
    v1.ListAndWatchAllocatableResourcesRequest,
    v1.ListAndWatchAllocatableResourcesResponse,
)
LIST_V1ALPHA1 = Method(
    "v1alpha1.PodResourcesLister", "List", v1alpha1.ListPodResourcesRequest, v1alpha1.ListPodResourcesResponse
)

REVISION = "nodeplane-revision"
"""Response: `LINEAGE-COUNT`, the position of what was answered."""

FEATURES = "nodeplane-features"
"""Response: comma-separated names of what this server offers beyond the document."""

SNAPSHOT = "nodeplane-snapshot"
"""Request, `1`: first ADDED for all there is, then a BOOKMARK, then changes."""

RESUME = "nodeplane-resume"
"""Request, a revision: first every change after it, then changes."""

SEQUENCE = "nodeplane-sequence"
"""Request, `1`: responses carry field 1000, the COUNT of their position within the LINEAGE of the headers."""

FINGERPRINT = "nodeplane-fingerprint"
"""Request of List, `1`; response: the fingerprint of the listed pods, as topology-aware schedulers compute it."""


_PODS = "v1alpha1.Pods"

WATCH_PODS = Method(_PODS, "WatchPods", pb.WatchPodsRequest, pb.WatchPodsEvent)
LIST_PODS = Method(_PODS, "ListPods", pb.ListPodsRequest, pb.ListPodsResponse)
GET_POD = Method(_PODS, "GetPod", pb.GetPodRequest, pb.GetPodResponse)
