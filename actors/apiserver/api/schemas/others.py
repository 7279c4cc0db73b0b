"""Small groups: one text each."""

AUTHENTICATION = """
SelfSubjectReview+: metadata:meta.ObjectMeta status:SelfSubjectReviewStatus
TokenRequest+: metadata:meta.ObjectMeta spec:TokenRequestSpec status:TokenRequestStatus
TokenReview+: metadata:meta.ObjectMeta spec!:TokenReviewSpec status:TokenReviewStatus
SelfSubjectReviewStatus: userInfo:UserInfo
TokenRequestSpec: audiences:[str] boundObjectRef:BoundObjectReference expirationSeconds:int64
TokenRequestStatus: expirationTimestamp:time token:str
TokenReviewSpec: audiences:[str] token!:str
TokenReviewStatus: audiences:[str] authenticated:bool error:str user:UserInfo
UserInfo: extra:{[str]} groups:[str] uid:str username:str
BoundObjectReference: apiVersion:str kind:str name:str uid:str
"""

AUTHORIZATION = """
LocalSubjectAccessReview+: metadata:meta.ObjectMeta spec!:SubjectAccessReviewSpec status:SubjectAccessReviewStatus
SelfSubjectAccessReview+: metadata:meta.ObjectMeta spec!:SelfSubjectAccessReviewSpec status:SubjectAccessReviewStatus
SelfSubjectRulesReview+: metadata:meta.ObjectMeta spec!:SelfSubjectRulesReviewSpec status:SubjectRulesReviewStatus
SubjectAccessReview+: metadata:meta.ObjectMeta spec!:SubjectAccessReviewSpec status:SubjectAccessReviewStatus
SubjectAccessReviewSpec: extra:{[str]} groups:[str] nonResourceAttributes:NonResourceAttributes
    resourceAttributes:ResourceAttributes uid:str user:str
SubjectAccessReviewStatus: allowed!:bool denied:bool evaluationError:str reason:str
SelfSubjectAccessReviewSpec: nonResourceAttributes:NonResourceAttributes resourceAttributes:ResourceAttributes
SelfSubjectRulesReviewSpec: namespace:str
SubjectRulesReviewStatus: evaluationError:str incomplete!:bool nonResourceRules!:[NonResourceRule]
    resourceRules!:[ResourceRule]
NonResourceAttributes: path:str verb:str
ResourceAttributes: fieldSelector:FieldSelectorAttributes group:str labelSelector:LabelSelectorAttributes name:str
    namespace:str resource:str subresource:str verb:str version:str
NonResourceRule: nonResourceURLs:[str] verbs!:[str]
ResourceRule: apiGroups:[str] resourceNames:[str] resources:[str] verbs!:[str]
FieldSelectorAttributes: rawSelector:str requirements:[meta.FieldSelectorRequirement]
LabelSelectorAttributes: rawSelector:str requirements:[meta.LabelSelectorRequirement]
"""

COORDINATION = """
Lease+: metadata:meta.ObjectMeta spec:LeaseSpec
LeaseSpec: acquireTime:microtime holderIdentity:str leaseDurationSeconds:int32 leaseTransitions:int32
    preferredHolder:str renewTime:microtime strategy:str
"""

EVENTS = """
Event+: metadata:meta.ObjectMeta action:str deprecatedCount:int32 deprecatedFirstTimestamp:time
    deprecatedLastTimestamp:time deprecatedSource:core.EventSource eventTime!:microtime note:str reason:str
    regarding:core.ObjectReference related:core.ObjectReference reportingController:str reportingInstance:str
    series:EventSeries type:str
EventSeries: count!:int32 lastObservedTime!:microtime
"""

POLICY = """
Eviction+: metadata:meta.ObjectMeta deleteOptions:meta.DeleteOptions
PodDisruptionBudget+: metadata:meta.ObjectMeta spec:PodDisruptionBudgetSpec status:PodDisruptionBudgetStatus
PodDisruptionBudgetSpec: maxUnavailable:int-or-string minAvailable:int-or-string selector:meta.LabelSelector
    unhealthyPodEvictionPolicy:str
PodDisruptionBudgetStatus: conditions:[meta.Condition]=type currentHealthy:int32 desiredHealthy:int32
    disruptedPods:{time} disruptionsAllowed:int32 expectedPods:int32 observedGeneration:int64
"""

RBAC = """
ClusterRole+: metadata:meta.ObjectMeta aggregationRule:AggregationRule rules:[PolicyRule]
ClusterRoleBinding+: metadata:meta.ObjectMeta roleRef!:RoleRef subjects:[Subject]
Role+: metadata:meta.ObjectMeta rules:[PolicyRule]
RoleBinding+: metadata:meta.ObjectMeta roleRef!:RoleRef subjects:[Subject]
AggregationRule: clusterRoleSelectors:[meta.LabelSelector]
PolicyRule: apiGroups:[str] nonResourceURLs:[str] resourceNames:[str] resources:[str] verbs!:[str]
RoleRef*: kind!:str apiGroup:str name!:str
Subject*: kind!:str apiGroup:str name!:str namespace:str
"""

METRICS = """
NodeMetrics+: metadata:meta.ObjectMeta timestamp!:time usage!:{quantity} window!:str
PodMetrics+: containers!:[ContainerMetrics] metadata:meta.ObjectMeta timestamp!:time window!:str
ContainerMetrics: name!:str usage!:{quantity}
"""
