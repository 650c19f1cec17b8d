"""One module per figure. Each `draw_` function is pure: it takes `Evidence` and returns a matplotlib figure."""
