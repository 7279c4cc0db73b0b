"""Field ownership: managedFields, and server-side apply, which rests on them. Pure.

Field sets keep the form in which they are stored and sent (FieldsV1), so that a write converts nothing.
"""
