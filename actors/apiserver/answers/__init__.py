"""The form of an answer: what the client accepts, tables, metadata only, indented."""
