"""Kubernetes' kinds, described once for all who read, write, check or encode objects. Nothing here does I/O.

`facts/` has the fields of each type, as data, `descriptions/` what they mean, and table.py the names of each resource.
`shapes/` is made of the facts, `check/` has the parts of rules, `served/` the row, strategy and columns that every kind
has. The other folders are kinds, a folder for each group; `custom/` makes the same of a CustomResourceDefinition.
"""
