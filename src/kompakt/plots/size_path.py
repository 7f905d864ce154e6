"""Validation error against the number of basis vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from kompakt.plots._style import axes_or_new, colour

Array = np.ndarray


class SizePathDisplay:
    """Error along a path of sizes, with the chosen size, in scikit-learn's display convention.

    Parameters
    ----------
    sizes : array of shape (n_sizes,)
    errors : array of shape (n_sizes,) or (n_sizes, n_splits)
    chosen : int
        The size that was chosen.
    standard_errors : array of shape (n_sizes,), optional

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import CompactSVC
    >>> from kompakt.plots import SizePathDisplay
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> machine = CompactSVC(n_basis="auto", refine=False, random_state=0).fit(X, y)
    >>> display = SizePathDisplay.from_estimator(machine)
    >>> display.ax_.get_xlabel()
    'basis vectors'
    """

    def __init__(self, sizes: Any, errors: Any, chosen: int, standard_errors: Any = None) -> None:
        self.sizes = np.asarray(sizes)
        self.errors = np.asarray(errors, dtype=float)
        self.chosen = int(chosen)
        self.standard_errors = None if standard_errors is None else np.asarray(standard_errors, dtype=float)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **line_options: Any) -> SizePathDisplay:
        """Draw the path of a machine that was fitted with ``n_basis="auto"``."""
        path = getattr(estimator, "size_path_", None)
        if path is None:
            raise ValueError(
                f"{type(estimator).__name__} has no size path: it has one after a fit with n_basis='auto'. "
                "Use from_predictions for errors of your own."
            )
        if isinstance(path, dict):  # the fixed-size machines' table
            parts = path["n_basis"], path["mean_test_error"], estimator.n_basis_, path["std_error"]
            return cls(*parts).plot(ax=ax, **line_options)
        return cls(path.sizes, path.errors, path.size, path.standard_errors).plot(ax=ax, **line_options)

    @classmethod
    def from_predictions(
        cls, sizes: Any, errors: Any, chosen: int, *, ax: Any = None, **line_options: Any
    ) -> SizePathDisplay:
        """Draw given errors."""
        return cls(sizes, errors, chosen).plot(ax=ax, **line_options)

    def plot(self, ax: Any = None, **line_options: Any) -> SizePathDisplay:
        """Draw into `ax`, or into a new figure."""
        ax = axes_or_new(ax)
        means = self.errors if self.errors.ndim == 1 else self.errors.mean(axis=1)
        (self.line_,) = ax.plot(self.sizes, means, **{"marker": "o", "color": colour(0), **line_options})
        if self.standard_errors is not None:
            ax.fill_between(
                self.sizes,
                means - self.standard_errors,
                means + self.standard_errors,
                alpha=0.2,
                color=self.line_.get_color(),
                label="one standard error",
            )
        ax.axvline(self.chosen, linestyle="--", color=colour(1), label=f"chosen: {self.chosen}")
        ax.set(xlabel="basis vectors", ylabel="validation error", xscale="log")
        # the sizes themselves, not powers of ten; of a long path those that leave room for their numbers
        shown = self.sizes[:: max(1, -(-len(self.sizes) // 12))]
        ax.set_xticks(shown, [str(size) for size in shown])
        ax.set_xticks([], minor=True)
        ax.grid(alpha=0.3)
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self
