"""Writes the pages of studies: HTML with charts and tables."""
