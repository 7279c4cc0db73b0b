"""What travels between nodeplane's processes: bus, messages, wire formats, API conventions.

Importing this package starts nothing, opens nothing and knows no actor.
"""
