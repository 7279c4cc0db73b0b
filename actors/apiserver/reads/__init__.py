"""Reads: which state answers a GET or a LIST, and how a long list is handed out in pages."""
