"""Elements of a page: trees of the standard library, whose serialiser escapes every text and every attribute.

Whatever comes from a user's data goes in as text of an element or the value of an attribute, never as markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree.ElementTree import Element as Element  # noqa: PLC0414 - for those who annotate with it
from xml.etree.ElementTree import tostring

import numpy as np

Child = Element | str | None
UNWRITTEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")  # no characters of HTML
SPLIT_MARKS = re.compile(r"[\u202a-\u202e\u2066-\u2069]")  # would turn the direction of what follows


def element(tag: str, *children: Child | Iterable[Child], **attributes: object) -> Element:
    """An element; ``class_`` is the attribute class, ``data_name`` is data-name, None and False leave one out."""
    found = Element(tag)
    for name, value in attributes.items():
        if value is not None and value is not False:
            key = name.rstrip("_").replace("_", "-")
            found.set("viewBox" if key == "viewbox" else key, "" if value is True else clean(str(value)))
    extend(found, *children)
    return found


def extend(parent: Element, *children: Child | Iterable[Child]) -> Element:
    """Append children, texts among them, and lists of both; None is nothing."""
    for child in children:
        if child is None:
            continue
        if isinstance(child, Element):
            parent.append(child)
        elif isinstance(child, str):
            if len(parent):
                parent[-1].tail = (parent[-1].tail or "") + clean(child)
            else:
                parent.text = (parent.text or "") + clean(child)
        else:
            extend(parent, *child)
    return parent


def clean(text: str) -> str:
    """Text without characters that no page can have, and without marks that turn its direction."""
    return SPLIT_MARKS.sub("", UNWRITTEN.sub("\ufffd", text))


def markup(found: Element) -> str:
    """The HTML of an element."""
    return tostring(found, encoding="unicode", method="html")


def number(value: object, digits: int = 3) -> str:
    """A number as a reader wants it, with a dash for none."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if not isinstance(value, float | np.floating):
        return str(value)
    value = float(value)
    if np.isnan(value):
        return "–"
    if np.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value != 0 and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}e}"
    decimals = digits - 1 - int(np.floor(np.log10(abs(value)))) if value else 0
    return f"{value:,.{max(0, decimals)}f}"


def rounded(value: float, sd: float) -> str:
    """A number with the decimals that its sd leaves two digits of."""
    if not (np.isfinite([value, sd]).all() and 1e-8 <= sd < 1e6):
        return number(value)
    decimals = max(0, 1 - int(np.floor(np.log10(sd))))
    return f"{round(value, decimals) + 0.0:,.{decimals}f}"  # no -0.00


def percent(value: float, *, sign: bool = False) -> str:
    """A share in percent, with a dash for none."""
    return "–" if not np.isfinite(value) else f"{value:{'+' if sign else ''}.1%}"


def code(text: str, *, copied: bool = True) -> Element:
    """Code, with a button that copies it where there is a script."""
    button = element("button", "copy", type="button", class_="copy", data_copy=text) if copied else None
    return element("div", element("pre", element("code", text), tabindex="0"), button, class_="code")
