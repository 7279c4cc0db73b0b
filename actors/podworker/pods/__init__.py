"""The pods of this node: their workers, static pods and CPU sets.

Floors, from the top: manager -> workers -> status -> restarts -> containers -> probes, volumes -> environment.
"""
