"""Kubernetes API conventions, and a small client: what every actor that speaks to (or serves) the API shares.

Everything but client.py, informer.py and events.py is pure: no clock, socket or file unless the name says so.
"""
