"""Says what a built site would load from the network, and fails if there is any: ``python offline.py FOLDER``."""

import sys
from html.parser import HTMLParser
from pathlib import Path

LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "video": "src"}
SAID_ONLY = {"canonical", "search", "next", "prev", "author", "license"}  # links that browsers do not follow


class Loads(HTMLParser):
    """The addresses that a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember those with a host."""
        values = dict(attrs)
        address = values.get(LOADED.get(tag, "")) or ""
        if address.startswith(("http:", "https:", "//")) and values.get("rel") not in SAID_ONLY:
            self.found.append(address)


def main(folder: Path) -> int:
    """Look at all pages and style sheets."""
    wrong = []
    for page in folder.rglob("*.html"):
        loads = Loads()
        loads.feed(page.read_text())
        wrong += [f"{page}: {address}" for address in loads.found]
    for sheet in folder.rglob("*.css"):
        text = sheet.read_text()
        wrong += [f"{sheet}: @import" for part in ("@import url(http", "url(http", 'url("http') if part in text]
    print("\n".join(wrong))
    return len(wrong) > 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
