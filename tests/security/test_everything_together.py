"""As test_everything_at_once.py, by all roles together: `./dev test attacks` runs it, for eight minutes."""
import os

import pytest
from attack import INSIDE, OUTSIDE
from beside import everything_at_once


@pytest.mark.skipif("MUSTER_ATTACK_ALL" not in os.environ, reason="takes long: ./dev test attacks runs it")
def test_everything_by_all_roles_at_once(open_folder):
    everything_at_once(open_folder, [*INSIDE, *OUTSIDE])
