"""The pods of this node: their workers, static pods and CPU sets.

Floors, from the top: manager -> workers -> status_manager -> containers -> probes, volumes -> environment.
"""
