"""Schemas of admission policies, webhook configurations and certificate signing requests, and their zero values."""

ADMISSION = """
ValidatingAdmissionPolicy+: metadata:meta.ObjectMeta spec:ValidatingAdmissionPolicySpec
    status:ValidatingAdmissionPolicyStatus
ValidatingAdmissionPolicySpec: auditAnnotations:[AuditAnnotation] failurePolicy:str
    matchConditions:[MatchCondition]=name matchConstraints:MatchResources paramKind:ParamKind validations:[Validation]
    variables:[Variable]=name
ValidatingAdmissionPolicyStatus: conditions:[meta.Condition]=type^none observedGeneration:int64
    typeChecking:TypeChecking
TypeChecking: expressionWarnings:[ExpressionWarning]
ExpressionWarning: fieldRef!:str warning!:str
ValidatingAdmissionPolicyBinding+: metadata:meta.ObjectMeta spec!:ValidatingAdmissionPolicyBindingSpec
ValidatingAdmissionPolicyBindingSpec: matchResources:MatchResources paramRef:ParamRef policyName!:str
    validationActions!:[str]=set^none
MutatingAdmissionPolicy+: metadata:meta.ObjectMeta spec:MutatingAdmissionPolicySpec
MutatingAdmissionPolicySpec: failurePolicy:str matchConditions:[MatchCondition]=name matchConstraints:MatchResources
    mutations:[Mutation] paramKind:ParamKind reinvocationPolicy:str variables:[Variable]
MutatingAdmissionPolicyBinding+: metadata:meta.ObjectMeta spec:MutatingAdmissionPolicyBindingSpec
MutatingAdmissionPolicyBindingSpec: matchResources:MatchResources paramRef:ParamRef policyName:str
ValidatingWebhookConfiguration+: metadata:meta.ObjectMeta webhooks:[ValidatingWebhook]=name
ValidatingWebhook: admissionReviewVersions!:[str] clientConfig!:WebhookClientConfig failurePolicy:str
    matchConditions:[MatchCondition]=name matchPolicy:str name!:str namespaceSelector:meta.LabelSelector
    objectSelector:meta.LabelSelector rules:[RuleWithOperations] sideEffects!:str timeoutSeconds:int32
MutatingWebhookConfiguration+: metadata:meta.ObjectMeta webhooks:[MutatingWebhook]=name
MutatingWebhook: admissionReviewVersions!:[str] clientConfig!:WebhookClientConfig failurePolicy:str
    matchConditions:[MatchCondition]=name matchPolicy:str name!:str namespaceSelector:meta.LabelSelector
    objectSelector:meta.LabelSelector reinvocationPolicy:str rules:[RuleWithOperations] sideEffects!:str
    timeoutSeconds:int32
ApplyConfiguration: expression:str
AuditAnnotation: key!:str valueExpression!:str
JSONPatch: expression:str
MatchCondition: expression!:str name!:str
MatchResources*: excludeResourceRules:[NamedRuleWithOperations] matchPolicy:str namespaceSelector:meta.LabelSelector
    objectSelector:meta.LabelSelector resourceRules:[NamedRuleWithOperations]
Mutation: applyConfiguration:ApplyConfiguration jsonPatch:JSONPatch patchType!:str
NamedRuleWithOperations*: apiGroups:[str] apiVersions:[str] operations:[str] resourceNames:[str] resources:[str]
    scope:str
ParamKind*: apiVersion:str kind:str
ParamRef*: name:str namespace:str parameterNotFoundAction:str selector:meta.LabelSelector
RuleWithOperations: apiGroups:[str] apiVersions:[str] operations:[str] resources:[str] scope:str
ServiceReference: name!:str namespace!:str path:str port:int32
Validation: expression!:str message:str messageExpression:str reason:str
Variable*: expression!:str name!:str
WebhookClientConfig: caBundle:bytes service:ServiceReference url:str
"""

CERTIFICATES = """
CertificateSigningRequest+: metadata:meta.ObjectMeta spec!:CertificateSigningRequestSpec
    status:CertificateSigningRequestStatus
CertificateSigningRequestSpec: expirationSeconds:int32 extra:{[str]} groups:[str] request!:bytes signerName!:str
    uid:str usages:[str] username:str
CertificateSigningRequestStatus: certificate:bytes conditions:[CertificateSigningRequestCondition]=type^none
CertificateSigningRequestCondition: lastTransitionTime:time lastUpdateTime:time message:str reason:str status!:str
    type!:str
"""

ADMISSION_V1 = """
AuditAnnotation: key valueExpression
ExpressionWarning: fieldRef warning
MatchCondition: name expression
MatchResources: ?matchPolicy
MutatingAdmissionPolicy: metadata spec
MutatingAdmissionPolicyBinding: metadata spec
MutatingAdmissionPolicySpec: ?failurePolicy
MutatingWebhook: name clientConfig sideEffects- admissionReviewVersions ?failurePolicy ?matchPolicy
    ?reinvocationPolicy ?timeoutSeconds
MutatingWebhookConfiguration: metadata
Mutation: patchType
NamedRuleWithOperations: ?scope
ParamRef: ?parameterNotFoundAction
RuleWithOperations: ?scope
ServiceReference: namespace name ?path ?port
ValidatingAdmissionPolicy: metadata spec status
ValidatingAdmissionPolicyBinding: metadata spec
ValidatingAdmissionPolicySpec: ?failurePolicy
ValidatingWebhook: name clientConfig sideEffects- admissionReviewVersions ?failurePolicy ?matchPolicy ?timeoutSeconds
ValidatingWebhookConfiguration: metadata
Validation: expression ?reason
Variable: name expression
WebhookClientConfig: ?url
"""

CERTIFICATES_V1 = """
CertificateSigningRequest: metadata spec status
CertificateSigningRequestCondition: type status lastUpdateTime lastTransitionTime
CertificateSigningRequestSpec: request signerName ?expirationSeconds
"""

ZEROS = {
    "io.k8s.api.admissionregistration.v1": ADMISSION_V1,
    "io.k8s.api.certificates.v1": CERTIFICATES_V1,
}
