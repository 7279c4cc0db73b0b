"""Leases, evictions, events of their own group, roles and the questions about who may do what."""

COORDINATION = """
Lease: 1:metadata:meta.ObjectMeta 2:spec:LeaseSpec
LeaseSpec: 1:holderIdentity:string! 2:leaseDurationSeconds:int32! 3:acquireTime:MicroTime 4:renewTime:MicroTime
    5:leaseTransitions:int32! 6:strategy:string! 7:preferredHolder:string!
"""
POLICY = """
Eviction: 1:metadata:meta.ObjectMeta 2:deleteOptions:meta.DeleteOptions
"""
EVENTS = """
Event: 1:metadata:meta.ObjectMeta 2:eventTime:MicroTime 3:series:EventSeries 4:reportingController:string
    5:reportingInstance:string 6:action:string 7:reason:string 8:regarding:core.ObjectReference
    9:related:core.ObjectReference 10:note:string 11:type:string 12:deprecatedSource:core.EventSource
    13:deprecatedFirstTimestamp:Time 14:deprecatedLastTimestamp:Time 15:deprecatedCount:int32
EventSeries: 1:count:int32! 2:lastObservedTime:MicroTime
"""
RBAC = """
Role: 1:metadata:meta.ObjectMeta 2:rules:[]PolicyRule
ClusterRole: 1:metadata:meta.ObjectMeta 2:rules:[]PolicyRule 3:aggregationRule:AggregationRule
RoleBinding: 1:metadata:meta.ObjectMeta 2:subjects:[]Subject 3:roleRef:RoleRef
ClusterRoleBinding: 1:metadata:meta.ObjectMeta 2:subjects:[]Subject 3:roleRef:RoleRef
PolicyRule: 1:verbs:[]string 2:apiGroups:[]string 3:resources:[]string 4:resourceNames:[]string
    5:nonResourceURLs:[]string
AggregationRule: 1:clusterRoleSelectors:[]meta.LabelSelector
Subject: 1:kind:string! 2:apiGroup:string 3:name:string! 4:namespace:string
RoleRef: 1:apiGroup:string! 2:kind:string! 3:name:string!
"""
AUTHENTICATION = """
TokenReview: 1:metadata:meta.ObjectMeta 2:spec:TokenReviewSpec 3:status:TokenReviewStatus
TokenRequest: 1:metadata:meta.ObjectMeta 2:spec:TokenRequestSpec 3:status:TokenRequestStatus
SelfSubjectReview: 1:metadata:meta.ObjectMeta 2:status:SelfSubjectReviewStatus
TokenReviewSpec: 1:token:string 2:audiences:[]string
TokenReviewStatus: 1:authenticated:bool 2:user:UserInfo 3:error:string 4:audiences:[]string
TokenRequestSpec: 1:audiences:[]string 3:boundObjectRef:BoundObjectReference 4:expirationSeconds:int64!
TokenRequestStatus: 1:token:string! 2:expirationTimestamp:Time
SelfSubjectReviewStatus: 1:userInfo:UserInfo
UserInfo: 1:username:string 2:uid:string 3:groups:[]string 4:extra:{}Strings
BoundObjectReference: 1:kind:string 2:apiVersion:string 3:name:string 4:uid:string
"""
AUTHORIZATION = """
SubjectAccessReview: 1:metadata:meta.ObjectMeta 2:spec:SubjectAccessReviewSpec 3:status:SubjectAccessReviewStatus
LocalSubjectAccessReview: 1:metadata:meta.ObjectMeta 2:spec:SubjectAccessReviewSpec 3:status:SubjectAccessReviewStatus
SelfSubjectAccessReview: 1:metadata:meta.ObjectMeta 2:spec:SelfSubjectAccessReviewSpec
    3:status:SubjectAccessReviewStatus
SelfSubjectRulesReview: 1:metadata:meta.ObjectMeta 2:spec:SelfSubjectRulesReviewSpec 3:status:SubjectRulesReviewStatus
SubjectAccessReviewSpec: 1:resourceAttributes:ResourceAttributes 2:nonResourceAttributes:NonResourceAttributes
    3:user:string 4:groups:[]string 5:extra:{}Strings 6:uid:string
SubjectAccessReviewStatus: 1:allowed:bool! 2:reason:string 3:evaluationError:string 4:denied:bool
SelfSubjectAccessReviewSpec: 1:resourceAttributes:ResourceAttributes 2:nonResourceAttributes:NonResourceAttributes
SelfSubjectRulesReviewSpec: 1:namespace:string
SubjectRulesReviewStatus: 1:resourceRules:[]ResourceRule 2:nonResourceRules:[]NonResourceRule 3:incomplete:bool!
    4:evaluationError:string
ResourceAttributes: 1:namespace:string 2:verb:string 3:group:string 4:version:string 5:resource:string
    6:subresource:string 7:name:string 8:fieldSelector:FieldSelectorAttributes 9:labelSelector:LabelSelectorAttributes
NonResourceAttributes: 1:path:string 2:verb:string
ResourceRule: 1:verbs:[]string 2:apiGroups:[]string 3:resources:[]string 4:resourceNames:[]string
NonResourceRule: 1:verbs:[]string 2:nonResourceURLs:[]string
FieldSelectorAttributes: 1:rawSelector:string 2:requirements:[]meta.FieldSelectorRequirement
LabelSelectorAttributes: 1:rawSelector:string 2:requirements:[]meta.LabelSelectorRequirement
"""
