"""Pod lifecycle event generator (PLEG, KEP-3386).

Read state_machine/ first: it is pure and holds all rules. shell/ asks the runtime and publishes; actor.py wires both.
"""
