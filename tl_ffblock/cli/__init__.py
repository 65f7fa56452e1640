"""The command line: `tl-ffblock map`, `models`, `check` and `run`."""
