"""Code that several processes share: bus and messages, wire formats and clients, common rules, process plumbing.

Importing this package starts nothing, opens nothing and knows no actor. README.md lists the folders.
"""
