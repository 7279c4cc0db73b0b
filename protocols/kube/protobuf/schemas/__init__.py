"""Which field of which message has which number, as text: one message a line, `number:name:type` each field.

A type is a scalar (string, int32, int64, bool, bytes), a value with a JSON form of its own (Time, MicroTime, Quantity,
IntOrString, Strings, Raw), or a message: of the same package, or `package.Message`. `[]` before it: repeated; `{}`: map
from string. `!` after it: a zero on the wire is a value (Go has a pointer there, or writes the field always); without
it JSON leaves a zero out. `&` after it: the message's fields stand in the parent's JSON object.
"""
