"""apiextensions.k8s.io/v1: definitions of custom resources; autoscaling/v1: their scale."""

EXTENSIONS = """
CustomResourceDefinition+: metadata:meta.ObjectMeta spec!:CustomResourceDefinitionSpec
    status:CustomResourceDefinitionStatus
CustomResourceDefinitionSpec: conversion:CustomResourceConversion group!:str names!:CustomResourceDefinitionNames
    preserveUnknownFields:bool scope!:str versions!:[CustomResourceDefinitionVersion]
CustomResourceDefinitionStatus: acceptedNames:CustomResourceDefinitionNames
    conditions:[CustomResourceDefinitionCondition]=type^none observedGeneration:int64 storedVersions:[str]
CustomResourceConversion: strategy!:str webhook:WebhookConversion
CustomResourceDefinitionNames: categories:[str] kind!:str listKind:str plural!:str shortNames:[str] singular:str
CustomResourceDefinitionVersion: additionalPrinterColumns:[CustomResourceColumnDefinition] deprecated:bool
    deprecationWarning:str name!:str schema:CustomResourceValidation selectableFields:[SelectableField] served!:bool
    storage!:bool subresources:CustomResourceSubresources
CustomResourceDefinitionCondition: lastTransitionTime:time message:str observedGeneration:int64 reason:str status!:str
    type!:str
WebhookConversion: clientConfig:WebhookClientConfig conversionReviewVersions!:[str]
CustomResourceColumnDefinition: description:str format:str jsonPath!:str name!:str priority:int32 type!:str
CustomResourceValidation: openAPIV3Schema:JSONSchemaProps
SelectableField: jsonPath!:str
CustomResourceSubresources: scale:CustomResourceSubresourceScale status:any
WebhookClientConfig: caBundle:bytes service:ServiceReference url:str
JSONSchemaProps: $ref:str $schema:str additionalItems:json additionalProperties:json allOf:[JSONSchemaProps]
    anyOf:[JSONSchemaProps] default:json definitions:{JSONSchemaProps} dependencies:{json} description:str enum:[json]
    example:json exclusiveMaximum:bool exclusiveMinimum:bool externalDocs:ExternalDocumentation format:str id:str
    items:JSONSchemaProps maxItems:int64 maxLength:int64 maxProperties:int64 maximum:json minItems:int64
    minLength:int64 minProperties:int64 minimum:json multipleOf:json not:JSONSchemaProps nullable:bool
    oneOf:[JSONSchemaProps] pattern:str patternProperties:{JSONSchemaProps} properties:{JSONSchemaProps}
    required:[str] title:str type:str uniqueItems:bool x-kubernetes-embedded-resource:bool
    x-kubernetes-int-or-string:bool x-kubernetes-list-map-keys:[str] x-kubernetes-list-type:str
    x-kubernetes-map-type:str x-kubernetes-preserve-unknown-fields:bool x-kubernetes-validations:[ValidationRule]=rule
CustomResourceSubresourceScale: labelSelectorPath:str specReplicasPath!:str statusReplicasPath!:str
ServiceReference: name!:str namespace!:str path:str port:int32
ExternalDocumentation: description:str url:str
ValidationRule: fieldPath:str message:str messageExpression:str optionalOldSelf:bool reason:str rule!:str
"""

AUTOSCALING = """
Scale+: metadata:meta.ObjectMeta spec:ScaleSpec status:ScaleStatus
ScaleSpec: replicas:int32
ScaleStatus: replicas!:int32 selector:str
"""
