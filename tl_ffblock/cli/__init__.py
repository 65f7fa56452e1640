"""The command line: each command is one file; `main.py` finds them."""
