"""The text of expressions: checked, rewritten and reported before and after the engine sees it."""
