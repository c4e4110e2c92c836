"""Named arrays in a file: what is written is read, by safetensors itself too, and damaged files are refused."""
import array
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

from case import Case
from test_worker import has

import muster
from muster.tensors import load, metadata, save


class Files(Case):
    def setUp(self):
        super().setUp()
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "a.safetensors"
        self.arrays = {"w": memoryview(array.array("f", [1, 2, 3, 4, 5, 6])).cast("B").cast("f", shape=(2, 3)), "n": array.array("q", [7, -8]),
                       "empty": array.array("d"), "bytes": bytearray(b"abc")}

    def test_what_is_written_is_read(self):
        save(self.path, self.arrays, {"step": "120"})
        found = load(self.path)
        self.assertEqual(list(found), list(self.arrays))
        self.assertEqual(found["w"].tolist(), [[1, 2, 3], [4, 5, 6]])
        self.assertEqual((found["n"].tolist(), len(found["empty"]), bytes(found["bytes"])), ([7, -8], 0, b"abc"))
        self.assertEqual(metadata(self.path), {"step": "120"})
        self.assertEqual(int.from_bytes(self.path.read_bytes()[:8], "little") % 8, 0)  # so that arrays are aligned

    def test_safetensors_itself_reads_and_writes_the_same(self):
        python = next((p for p in (sys.executable, os.environ.get("MUSTER_TEST_PEERS", "")) if p and has("safetensors.numpy", p)), None)
        if not python:
            self.skipTest("no Python here has safetensors and numpy (MUSTER_TEST_PEERS)")
        save(self.path, self.arrays)
        code = ("import sys; from safetensors.numpy import load_file, save_file; a = load_file(sys.argv[1]); save_file(a, sys.argv[2]);"
                "print({k: (str(v.dtype), v.tolist()) for k, v in sorted(a.items())})")
        out = subprocess.run([python, "-c", code, self.path, f"{self.path}2"], check=True, capture_output=True, text=True).stdout
        self.assertEqual(eval(out), {"w": ("float32", [[1, 2, 3], [4, 5, 6]]), "n": ("int64", [7, -8]), "empty": ("float64", []), "bytes": ("uint8", [97, 98, 99])})
        again = load(f"{self.path}2")
        self.assertEqual(again["w"].tolist(), [[1, 2, 3], [4, 5, 6]])

    def test_every_cut_and_wrong_place_is_an_error(self):
        save(self.path, self.arrays)
        whole = self.path.read_bytes()
        for length in range(len(whole)):
            self.path.write_bytes(whole[:length])
            with self.assertRaises((muster.Error, ValueError)):
                load(self.path)
        for change in ({"data_offsets": [0, 23]}, {"shape": [2, 4]}, {"shape": [1, 3]}, {"data_offsets": [-4, 20]}, {"dtype": "F99"}, {"dtype": "BF16", "shape": [12]},
                       {"data_offsets": [4, 28]}, {"shape": [True, 6]}, {"shape": None}):
            header = json.loads(whole[8:8 + int.from_bytes(whole[:8], "little")])
            header["w"].update(change)
            text = json.dumps(header).encode()
            self.path.write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + int.from_bytes(whole[:8], "little"):])
            with self.assertRaises(muster.Error, msg=str(change)):
                load(self.path)


if __name__ == "__main__":
    unittest.main()
