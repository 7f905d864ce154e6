"""Sphinx configuration: `make docs` builds into docs/_build without a network."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import kompakt

HERE = Path(__file__).resolve().parent
os.environ.setdefault("MPLBACKEND", "Agg")

project = "kompakt"
author = "The kompakt developers"
project_copyright = author
version = release = kompakt.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["_build", "_templates", "gallery/*.ipynb", "gallery/*.py"]
templates_path = ["_templates"]
default_role = "literal"  # docstrings put names in single backticks
# A page of another part may be missing from a checkout in the middle of work; an empty pattern is no error.
suppress_warnings = ["toc.empty_glob", "config.cache"]

myst_enable_extensions = ["deflist", "fieldlist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say more
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = f"kompakt {release}"
html_static_path: list[str] = []
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "kompakt"},
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 6,
}
html_sidebars = {"index": []}


def _use_style(gallery_conf: Any, name: str) -> None:
    """The settings of every picture of the project, before each example."""
    import matplotlib.pyplot as plt

    from kompakt.plots.style import STYLE

    plt.rcParams.update(STYLE)


sphinx_gallery_conf = {
    "reset_modules": ("matplotlib", _use_style),
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"__init__\.py|demo\.py",  # `make demo` is a program, and would have a card without picture
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "doc_module": ("kompakt",),
    "backreferences_dir": "api/backreferences",
    "remove_config_comments": True,
    "download_all_examples": False,
    "capture_repr": ("_repr_html_",),
    "show_memory": False,
    "write_computation_times": False,  # its page loads scripts from elsewhere
    "plot_gallery": True,
    "min_reported_time": 0,
    "reference_url": {},
}

_WORD = re.compile(r"(?<![`\\\w])(\w+)_(?=[\s,.;:)]|$)")


def _own_members_only(
    app: Any, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:  # scikit-learn's texts point at labels of its own documentation
    home = getattr(member, "__module__", None) or getattr(getattr(member, "fget", None), "__module__", "")
    return None if what != "class" or str(home).startswith("kompakt") else True


def _escape(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are written to be read in a terminal: |x|, K_cc and fitted_ names are text, not markup."""
    section = ""
    for i, line in enumerate(lines):
        if i + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[i + 1].strip()):
            section = line.strip()
        if section == "Examples" or line.lstrip().startswith(">>>"):
            continue
        # numpydoc itself escapes the name in front of " : "
        named = section in ("Attributes", "Parameters") and not line.startswith(" ")
        name_part, colon, text = line.partition(" : ") if named else ("", "", line)
        if named and not colon:
            continue
        parts = re.split(r"(``.*?``|`[^`]*`)", text)
        parts[::2] = [_WORD.sub(r"\1\\_", part.replace("|", r"\|")) for part in parts[::2]]
        lines[i] = name_part + colon + "".join(parts)


def setup(app: Any) -> None:
    """Connect the two hooks above; the first must run before numpydoc's own."""
    app.connect("autodoc-skip-member", _own_members_only)
    app.connect("autodoc-process-docstring", _escape, priority=100)
