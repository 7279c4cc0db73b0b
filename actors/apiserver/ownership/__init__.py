"""Who set which field: managedFields, and server-side apply, which rests on them. No I/O, nothing asynchronous.

Sets of fields are kept in the form they are stored and sent in (FieldsV1), so that nothing is converted on a write.
"""
