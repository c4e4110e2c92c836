"""What the tests of the package share: it is found in the tree, and no test leaves a connection to the next."""
import os
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PYTHON = ROOT / "python"
if str(PYTHON) not in sys.path:
    sys.path.insert(0, str(PYTHON))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from agent_peer import ENVIRONMENT, AgentPeer  # noqa: E402


class Case(unittest.TestCase):
    PLACE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "MUSTER_RESUME_FROM", "MUSTER_CHECKPOINT_DIR", ENVIRONMENT)

    def setUp(self):
        self.forget()
        kept = {name: os.environ.pop(name) for name in self.PLACE if name in os.environ}

        def restore():
            for name in self.PLACE:
                os.environ.pop(name, None)
            os.environ.update(kept)
            self.forget()
        self.addCleanup(restore)

    @staticmethod
    def forget():
        from muster import agent, reporting, stacks, stopping
        if agent._agent is not None:
            agent._agent.close()
        agent._agent = None
        stacks.forget()
        stopping._signalled = None
        reporting._waiting_used = False
        reporting._device_read.clear()

    def peer(self, **more):
        peer = AgentPeer(**more)
        self.addCleanup(peer.stop)
        os.environ[ENVIRONMENT] = peer.path
        return peer
