"""Controllers of ResourceQuotas and PodDisruptionBudgets. They start with the first object of their kind."""
