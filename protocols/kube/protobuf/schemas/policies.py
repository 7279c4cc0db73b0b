"""networking, policy, flow control and certificates."""

NETWORKING = """
NetworkPolicy: 1:metadata:meta.ObjectMeta 2:spec:NetworkPolicySpec
Ingress: 1:metadata:meta.ObjectMeta 2:spec:IngressSpec 3:status:IngressStatus
IngressClass: 1:metadata:meta.ObjectMeta 2:spec:IngressClassSpec
IPAddress: 1:metadata:meta.ObjectMeta 2:spec:IPAddressSpec
ServiceCIDR: 1:metadata:meta.ObjectMeta 2:spec:ServiceCIDRSpec 3:status:ServiceCIDRStatus
NetworkPolicySpec: 1:podSelector:meta.LabelSelector 2:ingress:[]NetworkPolicyIngressRule
    3:egress:[]NetworkPolicyEgressRule 4:policyTypes:[]string
IngressSpec: 1:defaultBackend:IngressBackend 2:tls:[]IngressTLS 3:rules:[]IngressRule 4:ingressClassName:string!
IngressStatus: 1:loadBalancer:IngressLoadBalancerStatus
IngressClassSpec: 1:controller:string 2:parameters:IngressClassParametersReference
IPAddressSpec: 1:parentRef:ParentReference
ServiceCIDRSpec: 1:cidrs:[]string
ServiceCIDRStatus: 1:conditions:[]meta.Condition
NetworkPolicyIngressRule: 1:ports:[]NetworkPolicyPort 2:from:[]NetworkPolicyPeer
NetworkPolicyEgressRule: 1:ports:[]NetworkPolicyPort 2:to:[]NetworkPolicyPeer
IngressBackend: 3:resource:core.TypedLocalObjectReference 4:service:IngressServiceBackend
IngressTLS: 1:hosts:[]string 2:secretName:string
IngressRule: 1:host:string 2:ingressRuleValue:IngressRuleValue&
IngressLoadBalancerStatus: 1:ingress:[]IngressLoadBalancerIngress
IngressClassParametersReference: 1:apiGroup:string! 2:kind:string! 3:name:string! 4:scope:string! 5:namespace:string!
ParentReference: 1:group:string 2:resource:string 3:namespace:string 4:name:string
NetworkPolicyPort: 1:protocol:string! 2:port:IntOrString 3:endPort:int32!
NetworkPolicyPeer: 1:podSelector:meta.LabelSelector 2:namespaceSelector:meta.LabelSelector 3:ipBlock:IPBlock
IngressServiceBackend: 1:name:string! 2:port:ServiceBackendPort
IngressRuleValue: 1:http:HTTPIngressRuleValue
IngressLoadBalancerIngress: 1:ip:string 2:hostname:string 4:ports:[]IngressPortStatus
IPBlock: 1:cidr:string! 2:except:[]string
ServiceBackendPort: 1:name:string 2:number:int32
HTTPIngressRuleValue: 1:paths:[]HTTPIngressPath
IngressPortStatus: 1:port:int32! 2:protocol:string! 3:error:string!
HTTPIngressPath: 1:path:string 2:backend:IngressBackend 3:pathType:string!
"""
DISRUPTION = """
PodDisruptionBudget: 1:metadata:meta.ObjectMeta 2:spec:PodDisruptionBudgetSpec 3:status:PodDisruptionBudgetStatus
PodDisruptionBudgetSpec: 1:minAvailable:IntOrString 2:selector:meta.LabelSelector 3:maxUnavailable:IntOrString
    4:unhealthyPodEvictionPolicy:string!
PodDisruptionBudgetStatus: 1:observedGeneration:int64 2:disruptedPods:{}Time 3:disruptionsAllowed:int32!
    4:currentHealthy:int32! 5:desiredHealthy:int32! 6:expectedPods:int32! 7:conditions:[]meta.Condition
"""
FLOWCONTROL = """
FlowSchema: 1:metadata:meta.ObjectMeta 2:spec:FlowSchemaSpec 3:status:FlowSchemaStatus
PriorityLevelConfiguration: 1:metadata:meta.ObjectMeta 2:spec:PriorityLevelConfigurationSpec
    3:status:PriorityLevelConfigurationStatus
FlowSchemaSpec: 1:priorityLevelConfiguration:PriorityLevelConfigurationReference 2:matchingPrecedence:int32!
    3:distinguisherMethod:FlowDistinguisherMethod 4:rules:[]PolicyRulesWithSubjects
FlowSchemaStatus: 1:conditions:[]FlowSchemaCondition
PriorityLevelConfigurationSpec: 1:type:string! 2:limited:LimitedPriorityLevelConfiguration
    3:exempt:ExemptPriorityLevelConfiguration
PriorityLevelConfigurationStatus: 1:conditions:[]PriorityLevelConfigurationCondition
PriorityLevelConfigurationReference: 1:name:string!
FlowDistinguisherMethod: 1:type:string!
PolicyRulesWithSubjects: 1:subjects:[]Subject 2:resourceRules:[]ResourcePolicyRule
    3:nonResourceRules:[]NonResourcePolicyRule
FlowSchemaCondition: 1:type:string 2:status:string 3:lastTransitionTime:Time 4:reason:string 5:message:string
LimitedPriorityLevelConfiguration: 1:nominalConcurrencyShares:int32! 2:limitResponse:LimitResponse
    3:lendablePercent:int32! 4:borrowingLimitPercent:int32!
ExemptPriorityLevelConfiguration: 1:nominalConcurrencyShares:int32! 2:lendablePercent:int32!
PriorityLevelConfigurationCondition: 1:type:string 2:status:string 3:lastTransitionTime:Time 4:reason:string
    5:message:string
Subject: 1:kind:string! 2:user:UserSubject 3:group:GroupSubject 4:serviceAccount:ServiceAccountSubject
ResourcePolicyRule: 1:verbs:[]string 2:apiGroups:[]string 3:resources:[]string 4:clusterScope:bool
    5:namespaces:[]string
NonResourcePolicyRule: 1:verbs:[]string 6:nonResourceURLs:[]string
LimitResponse: 1:type:string! 2:queuing:QueuingConfiguration
UserSubject: 1:name:string!
GroupSubject: 1:name:string!
ServiceAccountSubject: 1:namespace:string! 2:name:string!
QueuingConfiguration: 1:queues:int32! 2:handSize:int32! 3:queueLengthLimit:int32!
"""
CERTIFICATES = """
CertificateSigningRequest: 1:metadata:meta.ObjectMeta 2:spec:CertificateSigningRequestSpec
    3:status:CertificateSigningRequestStatus
CertificateSigningRequestSpec: 1:request:bytes! 2:username:string 3:uid:string 4:groups:[]string 5:usages:[]string
    6:extra:{}Strings 7:signerName:string! 8:expirationSeconds:int32!
CertificateSigningRequestStatus: 1:conditions:[]CertificateSigningRequestCondition 2:certificate:bytes
CertificateSigningRequestCondition: 1:type:string! 2:reason:string 3:message:string 4:lastUpdateTime:Time
    5:lastTransitionTime:Time 6:status:string!
"""
