"""Labelled results and what reads them: maps, measures, the data of a page, figures."""
