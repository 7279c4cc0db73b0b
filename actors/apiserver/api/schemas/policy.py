"""Schemas of limit ranges and quotas."""

CORE_POLICY = """
LimitRange+: metadata:meta.ObjectMeta spec:LimitRangeSpec
LimitRangeSpec: limits!:[LimitRangeItem]
LimitRangeItem: default:{quantity} defaultRequest:{quantity} max:{quantity} maxLimitRequestRatio:{quantity}
    min:{quantity} type!:str
ResourceQuota+: metadata:meta.ObjectMeta spec:ResourceQuotaSpec status:ResourceQuotaStatus
ResourceQuotaSpec: hard:{quantity} scopeSelector:ScopeSelector scopes:[str]
ResourceQuotaStatus: hard:{quantity} used:{quantity}
ScopeSelector*: matchExpressions:[ScopedResourceSelectorRequirement]
ScopedResourceSelectorRequirement: operator!:str scopeName!:str values:[str]
"""
