"""The pytest configuration of pyproject.toml is really in force (a misspelt table is silently ignored)."""

import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_configuration_comes_from_this_project(pytestconfig):
    assert pytestconfig.inipath == ROOT / "pyproject.toml"
    assert pytestconfig.getini("xfail_strict") is True
    assert pytestconfig.getini("testpaths") == ["tests", "src/kompakt"]


def test_unexpected_warnings_are_errors():
    with pytest.raises(UserWarning, match="nobody expected this"):
        warnings.warn("nobody expected this", UserWarning)


def test_deprecations_elsewhere_are_not_errors_but_ours_are():
    with warnings.catch_warnings():  # keeps the filters in force, restores the registry
        warnings.warn_explicit("old", DeprecationWarning, "other.py", 1, module="otherpackage.part")
        for module in ("kompakt", "kompakt.design"):
            with pytest.raises(DeprecationWarning, match="old"):
                warnings.warn_explicit("old", DeprecationWarning, "ours.py", 1, module=module)


def test_unknown_markers_are_refused():
    with pytest.raises(pytest.fail.Exception, match="no_such_marker"):
        pytest.mark.no_such_marker


def test_doctests_are_collected(pytestconfig):
    assert pytestconfig.getoption("doctestmodules")
