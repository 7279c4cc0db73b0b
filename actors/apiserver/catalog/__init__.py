"""What is served: rows of resources, the table of them, discovery."""
