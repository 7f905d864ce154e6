"""``python -m kompakt``: the command line."""

import sys

from kompakt.cli import main

sys.exit(main())
