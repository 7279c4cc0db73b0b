"""Scenarios: pods that a fleet is filled with, and what their start takes."""
