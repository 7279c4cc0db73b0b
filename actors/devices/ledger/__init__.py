"""Allocations of devices to pods, their history, and the checkpoint files."""
