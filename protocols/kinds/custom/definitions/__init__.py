"""The CustomResourceDefinition kind and the rules of what it may define."""
