"""One module per figure. Each `draw_` function is pure: it takes what is to be seen and returns a matplotlib figure."""
