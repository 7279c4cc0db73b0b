"""Cache of patched slices: takes changes of slices, patches, rules and classes in any order and reports changed slices.

Pure, except for feed.py, which follows the API.
"""
