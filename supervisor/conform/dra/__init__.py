"""What is played for a DRA driver: the kubelet that it registers with, and the scheduler that allocates claims."""
