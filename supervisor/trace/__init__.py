"""`nodeplane trace`: find a pod's spans in all processes of a plane, and show them as a waterfall."""
