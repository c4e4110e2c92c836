"""A callback for Lightning: reports, checkpoints, and a stop of all ranks in the same step.

    trainer = Trainer(max_steps=1000, callbacks=[muster.lightning.Callback("ckpt", every=100)])
    trainer.fit(model, data, ckpt_path=muster.lightning.latest("ckpt"))
"""
from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any, ContextManager, Dict, Optional

try:
    from lightning import pytorch as pl
except ImportError:  # its older name
    import pytorch_lightning as pl

from . import saving, stopping
from .reporting import report
from .torch import should_stop

STATE = "state.ckpt"  # in a checkpoint's folder


def latest(folder: Optional[saving.AnyPath] = None) -> Optional[str]:
    """For Trainer.fit(ckpt_path=…): the file of the newest checkpoint, or None."""
    found = saving.latest(folder)
    return str(found / STATE) if found else None


class Callback(pl.Callback):
    """folder: of the checkpoints; None: the callback writes none. every: steps between two of them;
    None: only at a stop and at the end. The program ends with exit code 75 after a request to stop."""

    def __init__(self, folder: Optional[saving.AnyPath] = None, every: Optional[int] = None) -> None:
        super().__init__()
        self.folder, self.every = Path(folder) if folder else None, every
        self._stopped = False
        self._saved = self._seen = -1
        self._total: Optional[int] = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        # Lightning's handler calls a collective, which in the middle of another one waits for ever.
        # Lightning puts back at its end what was there before it.
        stopping.take_signal()
        self._saved = self._seen = trainer.global_step
        total = trainer.estimated_stepping_batches
        self._total = int(total) if 0 < total < float("inf") else None

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        step = trainer.global_step
        if step == self._seen:
            return  # inside of an accumulation window
        self._seen = step
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        report(step, loss=None if loss is None else loss.detach(), total_steps=self._total, metrics=_numbers(trainer))
        if should_stop():
            self._stopped = trainer.should_stop = True
        if self._stopped or (self.every and step % self.every == 0):
            self._save(trainer)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.sanity_checking:
            report(metrics=_numbers(trainer))

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._save(trainer)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if self._stopped:
            self._stopped = False
            raise SystemExit(stopping.EXIT_STOPPED)

    def _save(self, trainer: Any) -> None:
        """On all ranks: Lightning's strategies take part in it."""
        if self.folder is None or trainer.global_step == self._saved:
            return
        self._saved = step = trainer.global_step
        one: ContextManager[Any] = nullcontext()
        if trainer.is_global_zero:
            one = saving.checkpoint(self.folder / f"step-{step:08}", step)
        with one as folder:
            at = trainer.strategy.broadcast(str(folder) if folder else "", src=0)
            trainer.save_checkpoint(Path(at) / STATE)


def _numbers(trainer: Any) -> Dict[str, Any]:
    """What the module logged, and the learning rate of the first group."""
    numbers = {name: value for name, value in trainer.callback_metrics.items() if name != "loss"}
    if trainer.optimizers and "lr" not in numbers:
        numbers["lr"] = trainer.optimizers[0].param_groups[0]["lr"]
    return numbers
