"""A user's type checker is content with what the README shows."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_ten_lines_pass_strict_mypy(tmp_path: Path) -> None:
    """One text gives one result, a list a list: no cast, no `type: ignore`, in strict mode."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    codes = re.findall(r"```python\n(.*?)```\s+```text", readme, re.DOTALL)
    script = tmp_path / "ten_lines.py"
    script.write_text("\n".join(codes), encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "pyproject.toml", str(script)]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
