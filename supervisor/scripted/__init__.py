"""Scripts for stand-ins that fail on order: what any scripted gRPC server needs, nothing of device plugins in it.

`nodeplane plugin --script` is the first user (supervisor/plugin/script.py shows how), a DRA driver may be the next:

- reading.py: a YAML file into a frozen msgspec struct of yours; unknown keys and wrong values are one line for people.
- types.py: `Seconds` for times in such a struct, `Step` to derive your steps from, `Fault` for what a call meets.
- timeline.py: which steps are due when; pure, so that a test can play hours.
- faults.py: the faults in force, call by call; `meet()` is what a gRPC handler awaits before it answers.
"""
