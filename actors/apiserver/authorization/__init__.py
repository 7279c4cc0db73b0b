"""Whether they may: masters, nodes, roles and bindings."""
