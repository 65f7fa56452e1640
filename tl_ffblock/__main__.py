"""`python -m tl_ffblock` = `tl-ffblock`."""

from tl_ffblock.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
