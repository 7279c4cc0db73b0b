"""Admission policies and webhooks, as objects."""
