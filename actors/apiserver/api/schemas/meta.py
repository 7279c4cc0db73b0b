"""meta/v1: what every object carries."""

META = """
DeleteOptions+: dryRun:[str] gracePeriodSeconds:int64 ignoreStoreReadErrorWithClusterBreakingPotential:bool
    orphanDependents:bool preconditions:Preconditions propagationPolicy:str
Preconditions: resourceVersion:str uid:str
ObjectMeta: annotations:{str} creationTimestamp:time deletionGracePeriodSeconds:int64 deletionTimestamp:time
    finalizers:[str]=set generateName:str generation:int64 labels:{str} managedFields:[ManagedFieldsEntry] name:str
    namespace:str ownerReferences:[OwnerReference]=uid resourceVersion:str selfLink:str uid:str
ManagedFieldsEntry: apiVersion:str fieldsType:str fieldsV1:any manager:str operation:str subresource:str time:time
OwnerReference*: apiVersion!:str kind!:str blockOwnerDeletion:bool controller:bool name!:str uid!:str
Condition: status!:str lastTransitionTime!:time message!:str observedGeneration:int64 reason!:str type!:str
LabelSelector*: matchExpressions:[LabelSelectorRequirement] matchLabels:{str}
LabelSelectorRequirement: key!:str operator!:str values:[str]
FieldSelectorRequirement: key!:str operator!:str values:[str]
"""
