"""Say why a pod, device, claim, node or plugin is in the state it is in: `nodeplane why`.

`gather` collects the evidence that a plane has; `pods` and `others` draw the conclusion from it without any I/O, by a
table of rules, tried in order, of which the first that matches gives state, reason and advice.
"""
