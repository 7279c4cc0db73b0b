"""Custom resources: their definitions, and the rows of the table that are made of them."""
