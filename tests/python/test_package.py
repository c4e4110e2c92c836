"""The package as others get it: a wheel by what Debian packages, one version everywhere, types for all of it."""
import ast
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

from case import PYTHON, ROOT, Case
from test_worker import has

import muster


class ThePackage(Case):
    def test_its_version_is_libworkers(self):
        header = (ROOT / "libworker/include/worker/version.h").read_text()
        version = ".".join(re.search(rf"#define WK_VERSION_{part} (\d+)", header).group(1) for part in ("MAJOR", "MINOR", "PATCH"))
        project = re.search(r'^version = "(.*)"$', (PYTHON / "pyproject.toml").read_text(), re.M).group(1)
        self.assertEqual((muster.__version__, project), (version, version))
        from muster.library import INTERFACE
        self.assertEqual(INTERFACE, ".".join(version.split(".")[:2]))

    def test_it_imports_nothing_that_python_lacks(self):
        optional = {"torch.py": {"torch"}, "reforming.py": {"torch"}, "lightning.py": {"lightning", "pytorch_lightning"}, "transformers.py": {"transformers"},
                    "accelerate.py": {"accelerate"}}
        known = getattr(sys, "stdlib_module_names", None)
        if known is None:
            self.skipTest("this Python does not list its own modules")
        for path in (PYTHON / "muster").glob("*.py"):
            for node in ast.parse(path.read_text()).body:  # what is imported inside functions is optional
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else \
                    [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
                for name in names:
                    top = name.split(".")[0]
                    self.assertTrue(top in known or top in optional.get(path.name, ()), f"{path.name} imports {name}")

    def test_what_is_for_torch_is_there_without_a_second_import(self):
        if not has("torch"):
            self.skipTest(f"{sys.executable} has no torch")
        code = "import muster, sys; print('torch' in sys.modules, muster.torch.Loop.__name__, 'torch' in muster.__all__)"
        out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(PYTHON)}).stdout
        self.assertEqual(out.split(), ["False", "Loop", "False"])

    def test_the_types_and_calls_of_rest_are_of_todays_openapi(self):
        prints = Path(os.environ.get("MUSTER_TEST_BUILD", ROOT / "build")) / "tests/openapi_print"
        if not prints.exists():
            self.skipTest(f"{prints} is not built")
        with TemporaryDirectory() as folder:
            document = Path(folder) / "openapi.json"
            document.write_bytes(subprocess.run([prints], check=True, capture_output=True).stdout)
            done = subprocess.run([sys.executable, ROOT / "tools/python_api.py", "--check", document], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertGreater((PYTHON / "muster/api.py").read_text().count("    def "), 30)

    def test_a_wheel_is_built_and_runs(self):
        if not (has("setuptools") and has("wheel") and has("pip")):
            self.skipTest(f"{sys.executable} has no setuptools, wheel or pip")
        with TemporaryDirectory() as folder:
            tree = Path(folder) / "python"
            shutil.copytree(PYTHON, tree, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
            environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "-w", folder, tree],
                           check=True, capture_output=True, cwd=folder, env=environment)
            wheel = next(Path(folder).glob("muster-*-py3-none-any.whl"))
            subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", f"{folder}/there", wheel],
                           check=True, capture_output=True, env=environment)
            files = {path.name for path in (Path(folder) / "there/muster").iterdir()}
            self.assertLessEqual({path.name for path in (PYTHON / "muster").iterdir() if path.suffix == ".py"} | {"py.typed"}, files)
            out = subprocess.run([sys.executable, "-c", "import muster; print(muster.__file__, len(list(muster.Sampler(10, 5))))"], check=True,
                                 capture_output=True, text=True, env={**environment, "PYTHONPATH": f"{folder}/there"}, cwd=folder).stdout
            self.assertEqual(out.split(), [f"{folder}/there/muster/__init__.py", "10"])


if __name__ == "__main__":
    unittest.main()
