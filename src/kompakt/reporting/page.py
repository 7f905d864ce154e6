"""The page around the sections: head, style, script, and the rule that nothing is fetched."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any

from kompakt.reporting.markup import esc


def page(title: str, header: str, sections: list[tuple[str, str, str]], data: dict[str, Any], footer: str) -> str:
    """A whole HTML page.

    Parameters
    ----------
    title : str
        A user's text.
    header, footer : str
        HTML.
    sections : list of (name, title, html)
    data : dict
        Numbers and texts for the script.
    """
    style = _resource("page.css")
    script = _resource("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Nothing may be loaded, and no script but this one may run, even if a name found its way into the markup.
    policy = (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    )
    links = "".join(f'<li><a href="#{name}">{text}</a></li>' for name, text, _ in sections)
    body = "".join(content for _, _, content in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{esc(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#main">To the content</a>\n'
        f'<header>{header}<nav aria-label="Sections"><ul>{links}</ul></nav></header>\n'
        f'<main id="main">{body}</main>\n<footer>{footer}</footer>\n'
        f'<script type="application/json" id="path-data">{as_data(data)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def as_data(data: Any) -> str:
    r"""JSON that cannot end the script element it stands in.

    Examples
    --------
    >>> from kompakt.reporting.page import as_data
    >>> print(as_data(["</script>"]))
    ["\u003c/script\u003e"]
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _resource(name: str) -> str:
    return files("kompakt.reporting").joinpath(name).read_text(encoding="utf-8")
