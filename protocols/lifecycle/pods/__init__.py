"""A pod as its node reads it, what the runtime has of it, and the stages of its life."""
