"""Serve custom resources: kinds, strategies and versions made of definitions."""
