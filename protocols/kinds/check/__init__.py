"""The one way to write a rule: tables of checks, the causes they give, and checks that many kinds share."""
