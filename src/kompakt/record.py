"""The short record of a training that a model keeps: the data, the settings tried and why this one, times, versions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

#: a record holds at most so many settings, entries of a mapping, and characters of a text
MOST_TRIED, _MOST_ENTRIES, _MOST_CHARACTERS = 20, 40, 400


@dataclass(frozen=True)
class Candidate:
    """A setting that was tried.

    Parameters
    ----------
    setting : dict of str to float
        What was searched for, such as C and gamma.
    error : float
        Mean error on held-out rows.
    deviation : float, optional
        Standard deviation of the error over the folds.
    model : str
        Kind of model: "plain" (not refined), "refined", "larger" (twice the vectors), "linear", "constant"; empty where
        a search tries one kind only.

    Examples
    --------
    >>> from kompakt.record import Candidate
    >>> str(Candidate({"C": 10.0, "gamma": 0.5}, 0.04, 0.01))
    'C 10, gamma 0.5: 0.04 ± 0.01'
    """

    setting: dict[str, float]
    error: float
    deviation: float | None = None
    model: str = ""

    def __str__(self) -> str:
        named = ", ".join(f"{name} {value:.4g}" for name, value in self.setting.items())
        spread = "" if self.deviation is None else f" ± {self.deviation:.2g}"
        return ": ".join(text for text in (self.model, named, f"{self.error:.4g}{spread}") if text)


@dataclass(frozen=True)
class TrainingRecord:
    """What is known of the training of a model; it is small, and part of the model's file.

    Parameters
    ----------
    estimator : str
        Name of the estimator.
    settings : dict of str to float or str
        Settings of the model: C, gamma, loss and so on.
    why : str
        Why these settings.
    n_tried : int
        Settings that were tried.
    tried : tuple of Candidate
        The chosen one first, then at most 19 others by their errors.
    error_name : str
        What the errors of `tried` are.
    n_rows : int
        Training rows.
    digest : str
        Of the values of the training rows, targets and weights: it is the same for the same data. Empty for streamed
        rows, which would have to be read once more.
    train_error : float, optional
        Of the model on its training rows: share of wrong labels, or root mean squared error.
    n_train_error : int
        Training rows that it was measured on.
    seconds : dict of str to float
        Time of the phases.
    versions : dict of str to str
        Of Python and packages.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kompakt import CompactSVC
    >>> record = CompactSVC(10, refine=False, random_state=0).fit(*load_iris(return_X_y=True)).model_.record
    >>> record.estimator, record.settings["C"], record.n_rows, record.n_tried
    ('CompactSVC', 1.0, 150, 0)
    """

    estimator: str
    settings: dict[str, Any] = field(default_factory=dict)
    why: str = ""
    n_tried: int = 0
    tried: tuple[Candidate, ...] = ()
    error_name: str = "held-out error"
    n_rows: int = 0
    digest: str = ""
    train_error: float | None = None
    n_train_error: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        texts = [self.estimator, self.why, self.error_name, self.digest, *(candidate.model for candidate in self.tried)]
        mappings: list[Mapping[Any, Any]] = [
            self.settings, self.seconds, self.versions, *(candidate.setting for candidate in self.tried),
        ]  # fmt: skip
        texts += [name for mapping in mappings for name in mapping]
        texts += [value for value in (*self.settings.values(), *self.versions.values()) if not _is_number(value)]
        numbers: list[Any] = [value for mapping in mappings[3:] for value in mapping.values()]
        numbers += [self.train_error or 0.0, *self.seconds.values(), *(candidate.error for candidate in self.tried)]
        numbers += [candidate.deviation or 0.0 for candidate in self.tried]
        counts = self.n_tried, self.n_rows, self.n_train_error
        sound = (
            all(isinstance(text, str) and len(text) <= _MOST_CHARACTERS for text in texts)
            and all(_is_number(value) and math.isfinite(value) for value in numbers)
            and all(type(count) is int and 0 <= count < 1 << 62 for count in counts)
            and all(len(mapping) <= _MOST_ENTRIES for mapping in mappings)
            and not any(_is_number(value) for value in self.versions.values())
            and len(self.tried) <= min(MOST_TRIED, self.n_tried)
        )
        if not sound:
            raise ValueError(
                f"the record of a training holds texts of at most {_MOST_CHARACTERS} characters, finite numbers and at "
                f"most {MOST_TRIED} settings, no more than were tried; got something else."
            )

    def to_json(self) -> dict[str, Any]:
        """Plain values, for the header of a model file."""
        return {**asdict(self), "tried": [asdict(candidate) for candidate in self.tried]}

    @classmethod
    def from_json(cls, values: Any) -> TrainingRecord:
        """The record that `to_json` described; anything else is refused with a ValueError."""
        names, candidate_names = ({entry.name for entry in fields(kind)} for kind in (cls, Candidate))
        sound = isinstance(values, dict) and set(values) == names and isinstance(values["tried"], list)
        tried = values["tried"] if sound else []
        sound = sound and all(isinstance(entry, dict) and set(entry) == candidate_names for entry in tried)
        mappings = [values["settings"], values["seconds"], values["versions"]] if sound else []
        mappings += [entry["setting"] for entry in tried] if sound else []
        if not sound or not all(isinstance(mapping, dict) for mapping in mappings):
            raise ValueError(f"the record of the training is damaged: it holds {', '.join(sorted(names))}.")
        candidates = tuple(Candidate(**entry) for entry in tried)
        try:
            return cls(**{**values, "tried": candidates})
        except (TypeError, OverflowError) as error:
            raise ValueError(f"the record of the training is damaged: {error}") from None

    def lines(self, most: int = 6) -> list[tuple[str, str]]:
        """Names and texts, as a terminal shows them, with at most so many of the settings tried."""
        settings = ", ".join(
            f"{name} {value:.4g}" if _is_number(value) else f"{name} {value}" for name, value in self.settings.items()
        )
        lines = [
            ("trained by", f"{self.estimator} on {self.n_rows:,} rows" if self.n_rows else self.estimator),
            ("settings", settings),
            ("why", self.why),
        ]
        if self.tried:
            lines.append(("settings tried", f"{self.n_tried:,}; {self.error_name}:"))
            names = ["  chosen", *["  tried"] * (most - 1)]
            lines += [(name, str(candidate)) for name, candidate in zip(names, self.tried, strict=False)]
        if self.train_error is not None:
            lines.append(("training error", f"{self.train_error:.4g} on {self.n_train_error:,} rows"))
        lines.append(("seconds", ", ".join(f"{name} {value:.3g}" for name, value in self.seconds.items())))
        lines.append(("versions", ", ".join(f"{name} {version}" for name, version in self.versions.items())))
        lines.append(("data digest", self.digest))
        return [(name, text) for name, text in lines if text]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
