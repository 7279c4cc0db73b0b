"""apiextensions and admissionregistration: what extends the API."""

APIEXTENSIONS = """
CustomResourceDefinition: 1:metadata:meta.ObjectMeta 2:spec:CustomResourceDefinitionSpec
    3:status:CustomResourceDefinitionStatus
CustomResourceDefinitionSpec: 1:group:string! 3:names:CustomResourceDefinitionNames 4:scope:string!
    7:versions:[]CustomResourceDefinitionVersion 9:conversion:CustomResourceConversion 10:preserveUnknownFields:bool
CustomResourceDefinitionStatus: 1:conditions:[]CustomResourceDefinitionCondition
    2:acceptedNames:CustomResourceDefinitionNames 3:storedVersions:[]string 4:observedGeneration:int64
CustomResourceDefinitionNames: 1:plural:string! 2:singular:string 3:shortNames:[]string 4:kind:string!
    5:listKind:string 6:categories:[]string
CustomResourceDefinitionVersion: 1:name:string! 2:served:bool! 3:storage:bool! 4:schema:CustomResourceValidation
    5:subresources:CustomResourceSubresources 6:additionalPrinterColumns:[]CustomResourceColumnDefinition
    7:deprecated:bool 8:deprecationWarning:string! 9:selectableFields:[]SelectableField
CustomResourceConversion: 1:strategy:string! 2:webhook:WebhookConversion
CustomResourceDefinitionCondition: 1:type:string! 2:status:string! 3:lastTransitionTime:Time 4:reason:string
    5:message:string 6:observedGeneration:int64
CustomResourceValidation: 1:openAPIV3Schema:JSONSchemaProps
CustomResourceSubresources: 1:status:CustomResourceSubresourceStatus 2:scale:CustomResourceSubresourceScale
CustomResourceColumnDefinition: 1:name:string! 2:type:string! 3:format:string 4:description:string 5:priority:int32
    6:jsonPath:string!
SelectableField: 1:jsonPath:string!
WebhookConversion: 2:clientConfig:WebhookClientConfig 3:conversionReviewVersions:[]string
JSONSchemaProps: 1:id:string 2:$schema:string 3:$ref:string! 4:description:string 5:type:string 6:format:string
    7:title:string 8:default:Raw 9:maximum:double! 10:exclusiveMaximum:bool 11:minimum:double!
    12:exclusiveMinimum:bool 13:maxLength:int64! 14:minLength:int64! 15:pattern:string 16:maxItems:int64!
    17:minItems:int64! 18:uniqueItems:bool 19:multipleOf:double! 20:enum:[]Raw 21:maxProperties:int64!
    22:minProperties:int64! 23:required:[]string 24:items:JSONSchemaPropsOrArray 25:allOf:[]JSONSchemaProps
    26:oneOf:[]JSONSchemaProps 27:anyOf:[]JSONSchemaProps 28:not:JSONSchemaProps 29:properties:{}JSONSchemaProps
    30:additionalProperties:JSONSchemaPropsOrBool 31:patternProperties:{}JSONSchemaProps
    32:dependencies:{}JSONSchemaPropsOrStringArray 33:additionalItems:JSONSchemaPropsOrBool
    34:definitions:{}JSONSchemaProps 35:externalDocs:ExternalDocumentation 36:example:Raw 37:nullable:bool
    38:x-kubernetes-preserve-unknown-fields:bool! 39:x-kubernetes-embedded-resource:bool
    40:x-kubernetes-int-or-string:bool 41:x-kubernetes-list-map-keys:[]string 42:x-kubernetes-list-type:string!
    43:x-kubernetes-map-type:string! 44:x-kubernetes-validations:[]ValidationRule
CustomResourceSubresourceStatus:
CustomResourceSubresourceScale: 1:specReplicasPath:string! 2:statusReplicasPath:string! 3:labelSelectorPath:string!
WebhookClientConfig: 1:service:ServiceReference 2:caBundle:bytes 3:url:string!
JSONSchemaPropsOrArray: 1:schema:JSONSchemaProps 2:jSONSchemas:[]JSONSchemaProps
JSONSchemaPropsOrBool: 1:allows:bool! 2:schema:JSONSchemaProps
JSONSchemaPropsOrStringArray: 1:schema:JSONSchemaProps 2:property:[]string
ExternalDocumentation: 1:description:string 2:url:string
ValidationRule: 1:rule:string! 2:message:string 3:messageExpression:string 4:reason:string! 5:fieldPath:string
    6:optionalOldSelf:bool!
ServiceReference: 1:namespace:string! 2:name:string! 3:path:string! 4:port:int32!
"""
ADMISSION = """
ValidatingAdmissionPolicy: 1:metadata:meta.ObjectMeta 2:spec:ValidatingAdmissionPolicySpec
    3:status:ValidatingAdmissionPolicyStatus
ValidatingAdmissionPolicyBinding: 1:metadata:meta.ObjectMeta 2:spec:ValidatingAdmissionPolicyBindingSpec
ValidatingWebhookConfiguration: 1:metadata:meta.ObjectMeta 2:webhooks:[]ValidatingWebhook
MutatingWebhookConfiguration: 1:metadata:meta.ObjectMeta 2:webhooks:[]MutatingWebhook
MutatingAdmissionPolicy: 1:metadata:meta.ObjectMeta 2:spec:MutatingAdmissionPolicySpec
MutatingAdmissionPolicyBinding: 1:metadata:meta.ObjectMeta 2:spec:MutatingAdmissionPolicyBindingSpec
ValidatingAdmissionPolicySpec: 1:paramKind:ParamKind 2:matchConstraints:MatchResources 3:validations:[]Validation
    4:failurePolicy:string! 5:auditAnnotations:[]AuditAnnotation 6:matchConditions:[]MatchCondition
    7:variables:[]Variable
ValidatingAdmissionPolicyStatus: 1:observedGeneration:int64 2:typeChecking:TypeChecking 3:conditions:[]meta.Condition
ValidatingAdmissionPolicyBindingSpec: 1:policyName:string 2:paramRef:ParamRef 3:matchResources:MatchResources
    4:validationActions:[]string
ValidatingWebhook: 1:name:string! 2:clientConfig:WebhookClientConfig 3:rules:[]RuleWithOperations
    4:failurePolicy:string! 5:namespaceSelector:meta.LabelSelector 6:sideEffects:string! 7:timeoutSeconds:int32!
    8:admissionReviewVersions:[]string 9:matchPolicy:string! 10:objectSelector:meta.LabelSelector
    11:matchConditions:[]MatchCondition
MutatingWebhook: 1:name:string! 2:clientConfig:WebhookClientConfig 3:rules:[]RuleWithOperations
    4:failurePolicy:string! 5:namespaceSelector:meta.LabelSelector 6:sideEffects:string! 7:timeoutSeconds:int32!
    8:admissionReviewVersions:[]string 9:matchPolicy:string! 10:reinvocationPolicy:string!
    11:objectSelector:meta.LabelSelector 12:matchConditions:[]MatchCondition
MutatingAdmissionPolicySpec: 1:paramKind:ParamKind 2:matchConstraints:MatchResources 3:variables:[]Variable
    4:mutations:[]Mutation 5:failurePolicy:string! 6:matchConditions:[]MatchCondition 7:reinvocationPolicy:string
MutatingAdmissionPolicyBindingSpec: 1:policyName:string 2:paramRef:ParamRef 3:matchResources:MatchResources
ParamKind: 1:apiVersion:string 2:kind:string
MatchResources: 1:namespaceSelector:meta.LabelSelector 2:objectSelector:meta.LabelSelector
    3:resourceRules:[]NamedRuleWithOperations 4:excludeResourceRules:[]NamedRuleWithOperations 7:matchPolicy:string!
Validation: 1:expression:string! 2:message:string 3:reason:string! 4:messageExpression:string
AuditAnnotation: 1:key:string! 2:valueExpression:string!
MatchCondition: 1:name:string! 2:expression:string!
Variable: 1:name:string! 2:expression:string!
TypeChecking: 1:expressionWarnings:[]ExpressionWarning
ParamRef: 1:name:string 2:namespace:string 3:selector:meta.LabelSelector 4:parameterNotFoundAction:string!
WebhookClientConfig: 1:service:ServiceReference 2:caBundle:bytes 3:url:string!
RuleWithOperations: 1:operations:[]string 2:rule:Rule&
Mutation: 2:patchType:string! 3:applyConfiguration:ApplyConfiguration 4:jsonPatch:JSONPatch
NamedRuleWithOperations: 1:resourceNames:[]string 2:ruleWithOperations:RuleWithOperations&
ExpressionWarning: 2:fieldRef:string! 3:warning:string!
ServiceReference: 1:namespace:string! 2:name:string! 3:path:string! 4:port:int32!
Rule: 1:apiGroups:[]string 2:apiVersions:[]string 3:resources:[]string 4:scope:string!
ApplyConfiguration: 1:expression:string
JSONPatch: 1:expression:string
"""
