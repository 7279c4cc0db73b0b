"""Devices of plugins: inventory, owners, choice, health in pod statuses and events."""
