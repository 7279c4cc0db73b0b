"""One file per family of resources: its rows of the table, its columns, its rules."""
