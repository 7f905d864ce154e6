"""What `import kompakt` gives and what it leaves alone."""

import subprocess
import sys
from importlib.metadata import version

import pytest

import kompakt


def test_import_is_light():
    code = (
        "import sys, kompakt; "
        "heavy = {'sklearn', 'numba', 'scipy', 'pandas'} & set(sys.modules); "
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_version_agrees_with_the_installed_package():
    assert kompakt.__version__ == version("kompakt")


def test_every_public_name_resolves_and_is_listed():
    assert set(kompakt.__all__) == {*kompakt._HOME, "__version__"}
    for name in kompakt.__all__:
        assert getattr(kompakt, name) is not None
        assert name in dir(kompakt)


def test_an_unknown_name_is_an_attribute_error_that_lists_the_names():
    with pytest.raises(AttributeError, match=r"no attribute 'Compact'; public names: .*CompactSVC"):
        kompakt.Compact
