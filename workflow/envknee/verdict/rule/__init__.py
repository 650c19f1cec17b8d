"""How a limit is decided, whatever is measured: the rule on doublings, and lines through noisy points. Pure."""
