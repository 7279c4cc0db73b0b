"""The played node of a DRA driver: the kubelet that it registers with, and the scheduler that allocates claims."""
