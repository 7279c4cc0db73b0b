"""What keeps API objects in order: namespaces, node leases."""
