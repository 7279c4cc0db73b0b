"""Nodes with their load: filters, tables, scores."""
