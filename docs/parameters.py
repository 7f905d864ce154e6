"""The page of parameters, docs/parameters.md, from the declarations in `kompakt.estimators.params`.

python docs/parameters.py
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import kompakt
from kompakt import estimators
from kompakt.estimators.params import OTHER_DEFAULTS, Parameter, parameters_of

PAGE = Path(__file__).with_suffix(".md")
HEAD = """# Parameters

Every parameter of every estimator, in one table: a name has one meaning, one type and one default everywhere.
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
    classes = {name: parameters_of(getattr(kompakt, name)) for name in estimators.__all__}
    first: dict[str, Parameter] = {}
    for name in ("CompactSVC", "CompactSVR", "SpSVC", "FixedSizeLSSVC", *classes):
        first = {**classes[name], **first}
    order = sorted(first, key=str.lower)
    every = [one for known in classes.values() for one in known.values()]
    options = sorted({option.__name__ for one in every for option in one.options})
    lines = [HEAD.format(options=", ".join(f"`{name}`" for name in (*options, "GramSelector", "RenyiSelector")))]
    for name in order:
        owners = [owner for owner, known in classes.items() if name in known]
        defaults = [shown(classes[owner][name].default) for owner in owners]
        default = max(dict.fromkeys(defaults), key=defaults.count)
        if name in OTHER_DEFAULTS:
            others = dict.fromkeys(value for value in defaults if value != default)
            default += f"; {', '.join(others)}: {OTHER_DEFAULTS[name]}"
        known = {option: None for owner in owners for option in classes[owner][name].options}
        accepts = replace(first[name], options=known).accepts
        of = "all" if len(owners) == len(classes) else ", ".join(f"`{owner}`" for owner in owners)
        lacking = [f"`{owner}`" for owner in classes if owner not in owners]
        of = f"all but {', '.join(lacking)}" if 0 < len(lacking) <= 3 else of
        lines.append(f"| `{name}` | {accepts} | {default} | {first[name].text} | {of} |\n")
    return "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
