"""Small programs whose verdicts were settled by hand, and the run that holds mindgap to them."""
