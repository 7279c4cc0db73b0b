"""Diagnosis of a pod. Pure: a file per group of states, and the table of rules in `diagnose`."""
