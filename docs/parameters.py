"""The page of parameters, docs/parameters.md, from the table in `kompakt.estimators.params`.

python docs/parameters.py
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import kompakt
from kompakt import estimators
from kompakt.estimators.params import OTHER_DEFAULTS

PAGE = Path(__file__).with_suffix(".md")
HEAD = """# Parameters

Every parameter of every estimator, in one table: a name has one meaning and one default everywhere, and
several rows where methods accept different values.
Constructors store what they are given and `fit` checks it, as in scikit-learn. Where a parameter has more to say than a
name or `True`, it takes an object of options, which is documented where it is defined: {options}.

An estimator's own page says what a parameter means for its method in particular; where the default is None and the
text says "the method's own", it says the value too. (`python docs/parameters.py` makes this page.)

| parameter | type | default | meaning | of |
|---|---|---|---|---|
"""


def shown(value: Any) -> str:
    """A default as it is written."""
    return f'`"{value}"`' if isinstance(value, str) else f"`{value!r}`"


def page() -> str:
    """The text of the page."""
    classes = {name: getattr(kompakt, name)._parameters for name in estimators.__all__}
    every = [known for declared in classes.values() for known in declared.values()]
    options = sorted({option.__name__ for known in every for option in known.options})
    lines = [HEAD.format(options=", ".join(f"`{name}`" for name in (*options, "GramSelector", "RenyiSelector")))]
    # a name has several rows where methods accept different values
    rows: dict[tuple[str, str], list[str]] = {}
    for owner in dict.fromkeys(("CompactSVC", "CompactSVR", "SpSVC", "FixedSizeLSSVC", *classes)):
        for name, declared in classes[owner].items():
            rows.setdefault((name, declared.doc), []).append(owner)
    for (name, text), owners in sorted(rows.items(), key=lambda row: row[0][0].lower()):
        defaults = [shown(classes[owner][name].default) for owner in owners]
        default = max(dict.fromkeys(defaults), key=defaults.count)
        others = dict.fromkeys(value for value in defaults if value != default)
        if others:
            default += f"; {', '.join(others)}: {OTHER_DEFAULTS[name]}"
        accepted = {option: None for owner in owners for option in classes[owner][name].options}
        types = dict.fromkeys(classes[owner][name].type for owner in owners)
        accepts = "; ".join(replace(classes[owners[0]][name], type=kind, options=accepted).accepts for kind in types)
        of = "all" if len(owners) == len(classes) else ", ".join(f"`{owner}`" for owner in classes if owner in owners)
        lacking = [f"`{owner}`" for owner in classes if owner not in owners]
        of = f"all but {', '.join(lacking)}" if 0 < len(lacking) <= 3 else of
        lines.append(f"| `{name}` | {accepts} | {default} | {text} | {of} |\n")
    return "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
