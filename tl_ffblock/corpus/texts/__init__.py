"""Data files to tokens."""
