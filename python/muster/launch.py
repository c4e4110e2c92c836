"""A function as a job: shipped to the nodes, run by each rank, its results brought back.

    def train(epochs):
        …                       # muster.report, torch.distributed and the like, as in any job
        return loss

    losses = muster.run(train, 3, nodes=2)      # of each rank, in rank order

With cloudpickle any function works, one of a notebook too; without it those that ranks can import by
name. The function, its arguments and its results pass through a folder that all nodes must reach.
"""
from __future__ import annotations

import os
import pickle
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, Callable, List, Optional, Tuple, Union

from .client import Client
from .errors import Error

FUNCTION = "function.pickle"


def run(function: Callable[..., Any], *arguments: Any, nodes: Union[int, Tuple[int, int]] = 1, folder: Optional[str] = None,
        client: Optional[Client] = None, quiet: bool = False, python: str = sys.executable, **spec: Any) -> List[Any]:
    """function(*arguments) on every rank; what each returned. `spec`: other keys of the job, as in
    Client.submit. folder: on storage that all nodes reach; by default the working directory. Output of the
    ranks is printed, unless `quiet`. Error with the coordinator's reason where the job does not succeed."""
    client = client or Client()
    with tempfile.TemporaryDirectory(prefix=".muster-run-", dir=os.path.abspath(folder or ".")) as place:
        (Path(place) / FUNCTION).write_bytes(_packed((function, arguments)))
        paths = [str(Path(__file__).resolve().parent.parent), *filter(None, os.environ.get("PYTHONPATH", "").split(":"))]
        env = {"PYTHONPATH": ":".join(dict.fromkeys([*paths, os.getcwd()])), **spec.pop("env", {})}
        job = client.submit([python, "-m", "muster.launch", place], nodes=nodes, env=env,
                            **{"name": getattr(function, "__name__", "").strip("_<>").replace("_", "-").lower() or "run",
                               "workdir": os.getcwd(), **spec})
        for line in client.follow(job["id"]):
            if not quiet:
                print(line.get("text", ""), file=sys.stderr if line.get("is_stderr") else sys.stdout)
        ended = client.wait(job["id"])
        if ended["state"] != "succeeded":
            raise Error(f"job {job['id']} {ended['state']}: {ended['reason']['text']}{_raised(Path(place))}")
        return [pickle.loads((Path(place) / str(rank)).read_bytes()) for rank in range(int(ended["world"]))]


def _raised(place: Path) -> str:
    """What the function raised, of the first rank that did."""
    said = sorted(place.glob("*.raised"), key=lambda path: path.stat().st_mtime_ns)
    return f"; rank {said[0].stem} raised {said[0].read_text().strip()}" if said else ""


def _packed(value: Any) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        if getattr(value[0], "__module__", "") == "__main__":
            raise Error("a function of this program or notebook needs cloudpickle: pip install cloudpickle") from None
        return pickle.dumps(value)
    return bytes(cloudpickle.dumps(value))


def main() -> int:
    """A rank: the folder is its argument."""
    place = Path(sys.argv[1])
    function, arguments = pickle.loads((place / FUNCTION).read_bytes())
    rank = os.environ.get("RANK", "0")
    try:
        result = function(*arguments)
    except Exception as error:
        traceback.print_exc()
        (place / f"{rank}.raised").write_text("".join(traceback.format_exception_only(type(error), error)))
        return 1
    part = place / f".{rank}"
    part.write_bytes(_result(result))
    os.rename(part, place / rank)
    return 0


def _result(result: Any) -> bytes:
    try:
        return pickle.dumps(result)
    except Exception:
        import cloudpickle
        return bytes(cloudpickle.dumps(result))


if __name__ == "__main__":
    sys.exit(main())
