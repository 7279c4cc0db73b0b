"""Whether a body says only what its kind has, in the types its kind has them: what fieldValidation asks for."""
