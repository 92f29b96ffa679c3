"""Draws the weights of a module anew, each by a recipe of its name and the seed. Knows no model library."""
