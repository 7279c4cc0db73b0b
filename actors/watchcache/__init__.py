"""The watch cache (KEP-1904): objects and recent changes of every resource, from etcd's API to streams on the bus.

Read cache/window.py first, then cache/resource_cache.py and cache/store_state.py: they are pure and hold the rules.
shell/ follows a store and publishes; actor.py wires one backend for each store.
"""
