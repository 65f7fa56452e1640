"""Labelled results and what reads them; knows no model."""
