"""As test_everything_at_once.py, by those who have no token of a user: a file of its own, so that both run side by side."""
import pytest
from attack import OUTSIDE
from beside import everything_at_once


@pytest.mark.parametrize("role", OUTSIDE)
def test_everything_from_outside_at_once(open_folder, role):
    everything_at_once(open_folder, [role])
