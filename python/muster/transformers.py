"""A callback for HuggingFace's Trainer: reports, its checkpoints known to Muster, and a stop of all ranks
in the same step.

    trainer = Trainer(model, args, train_dataset=data, callbacks=[muster.transformers.Callback()])
    trainer.train(resume_from_checkpoint=muster.transformers.latest(args.output_dir))
"""
from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, Optional

from transformers import TrainerCallback

from . import saving, stopping
from .reporting import report
from .torch import should_stop

LEFT_OUT = {"epoch", "total_flos"}
RENAMED = {"learning_rate": "lr"}


def latest(folder: Optional[saving.AnyPath] = None) -> Optional[str]:
    """For Trainer.train(resume_from_checkpoint=…): the newest checkpoint, or None. Under Muster the job's
    own; before it has one, what the job's `resume_from` says. Outside, and for `resume_from: latest`, the
    checkpoint-N of the highest N with the trainer's state in it."""
    found, looks = saving.named()
    if found or not looks:
        return str(found) if found else None
    folders = Path(folder).glob("checkpoint-*") if folder else iter(())
    whole = [path for path in folders if re.fullmatch(r"checkpoint-\d+", path.name) and (path / "trainer_state.json").exists()]
    return str(max(whole, key=lambda path: int(path.name.split("-")[1]))) if whole else None


class Callback(TrainerCallback):
    """The trainer's own arguments decide when it saves; at a stop it saves as well, and the program ends
    with exit code 75."""

    def __init__(self) -> None:
        self._stopped = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        stopping.should_stop()  # SIGTERM is a request to stop from here on

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> Any:
        report(state.global_step, total_steps=state.max_steps if state.max_steps > 0 else None)
        if should_stop():
            self._stopped = True
            control.should_save = control.should_training_stop = True
        return control

    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, Any]] = None, **more: Any) -> None:
        numbers = {RENAMED.get(name, name): value for name, value in (logs or {}).items()
                   if name not in LEFT_OUT and isinstance(value, (int, float))}
        if numbers:
            report(metrics=numbers)

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if state.is_world_process_zero:
            saving.saved(Path(args.output_dir) / f"checkpoint-{state.global_step}", state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if self._stopped:
            self._stopped = False
            raise SystemExit(stopping.EXIT_STOPPED)
