"""Preemption: which pods of lower priority must go so that a pod fits. Pure, but for the evictor."""
