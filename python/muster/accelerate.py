"""A tracker for Accelerate: what is logged becomes the job's charts and progress.

    accelerator = Accelerator(log_with=muster.accelerate.Tracker())
    accelerator.init_trackers("run")
    accelerator.log({"loss": loss}, step=step)              # completed steps

`muster.torch.should_stop()` and `muster.checkpoint(path, shared=True)` around `accelerator.save_state` make
the rest of it, as examples/torch/accelerated.py shows.
"""
from __future__ import annotations

from typing import Any, Dict, Optional

from accelerate.tracking import GeneralTracker

from .reporting import report


class Tracker(GeneralTracker):
    """On all ranks, so that Muster knows the step of each; the numbers are rank 0's."""

    name = "muster"
    requires_logging_directory = False
    main_process_only = False

    def __init__(self, run_name: str = "muster", **more: Any) -> None:
        super().__init__()
        self.run_name = run_name

    @property
    def tracker(self) -> "Tracker":
        return self

    def store_init_configuration(self, values: Dict[str, Any]) -> None:
        """Muster has the job's own settings."""

    def log(self, values: Dict[str, Any], step: Optional[int] = None, **more: Any) -> None:
        report(step, metrics={name: value for name, value in values.items() if not isinstance(value, (str, dict))})
