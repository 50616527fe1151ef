"""The README as PyPI shows it: its links and pictures are those of the repository."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(!?)(\[[^\]]*\])\((?!\w+:|#)")


class Readme(MetadataHookInterface):
    """Read when the package is built."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set ``readme``."""
        source = metadata["urls"]["Source"]

        def absolute(found: re.Match[str]) -> str:
            return f"{found[1]}{found[2]}({source}/{'raw' if found[1] else 'blob'}/main/"

        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": RELATIVE.sub(absolute, text)}
