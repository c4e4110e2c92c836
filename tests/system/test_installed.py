"""The library as other people's programs get it: headers that each stand alone in C and C++, and an
installed copy that pkg-config, CMake, g++ and nvcc build against; the same from the Debian package."""
import os
import re
import shutil
import subprocess

import pytest
from localcluster import HANG_SECONDS, MUSTER, ROOT

BUILD = MUSTER.parent
HEADERS = sorted((ROOT / "libworker/include/worker").glob("*.h"))
PROGRAMS = ROOT / "tests/system/installed"
NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror"]


def done(command, **more):
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace", timeout=HANG_SECONDS, **more)
    assert ended.returncode == 0, f"{command}: {ended.stdout[-3000:]}{ended.stderr[-3000:]}"
    return ended.stdout


@pytest.mark.parametrize("compiler,language,standard", [
    *((compiler, "c", standard) for compiler in ("gcc", "clang") for standard in ("c99", "c11", "c17")),
    *((compiler, "c++", standard) for compiler in ("g++", "clang++") for standard in ("c++11", "c++14", "c++17", "c++20"))])
def test_each_header_stands_alone(compiler, language, standard, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    for header in HEADERS:
        program = tmp_path / "alone"
        program.write_text(f"#include <worker/{header.name}>\n#include <worker/{header.name}>\nint something;\n")
        done([compiler, "-x", language, f"-std={standard}", "-fsyntax-only", *STRICT, "-Wmissing-declarations", "-I", header.parent.parent, program])


def test_every_function_has_c_linkage(tmp_path):
    """One that a header declares outside of extern "C" would be looked for under a C++ name."""
    names = sorted({name for header in HEADERS for name in re.findall(r"^WK_API [^(]*?\b(wk_\w+)\(", header.read_text(), re.M)})
    assert len(names) > 150
    program = tmp_path / "all.cpp"
    program.write_text("#include <worker/worker.h>\nextern void *const all[];\nvoid *const all[] = {\n" + "".join(f"    reinterpret_cast<void *>({name}),\n" for name in names) + "};\n")
    done(["g++", "-std=c++17", "-c", program, "-I", ROOT / "libworker/include", "-o", tmp_path / "all.o"])
    asked = {line.split()[-1] for line in done(["nm", "-u", tmp_path / "all.o"]).splitlines()}
    assert set(names) <= asked, sorted(set(names) - asked)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    at = tmp_path_factory.mktemp("installed") / "there"
    done(["cmake", "--install", BUILD, "--prefix", at])
    return at


def quiet_environment(**more):
    """This one without what a job or a launcher would have set, or a path to the library."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER", "SLURM", "OMPI", "PMI", "MV2", "RANK", "WORLD_SIZE", "LD_LIBRARY", "PKG_CONFIG", "CMAKE"))}
    return {**kept, **more}


def flags(prefix, *options):
    folder = next(prefix.rglob("muster.pc")).parent
    return done(["pkg-config", *options, "muster"], env=quiet_environment(PKG_CONFIG_PATH=str(folder))).split()


def library_folder(prefix):
    return next(prefix.rglob("libworker.so")).parent


def version():
    text = (ROOT / "libworker/include/worker/version.h").read_text()
    return tuple(int(re.search(rf"#define WK_VERSION_{part} (\d+)", text).group(1)) for part in ("MAJOR", "MINOR", "PATCH"))


def check_output(kind, out):
    major, minor, patch = version()
    dotted = f"{major}.{minor}.{patch}"
    number = major * 1000000 + minor * 1000 + patch
    said = "".join(line for line in out.splitlines(True) if not line.startswith("step "))  # without progress
    assert said == {"c": f"{dotted}: rank 0 of 1\n", "cpp": f"headers {number} library {number} {dotted}\nrank 0 of 1: 3.000 -1.000\n", "cu": "rank 0 of 1: 2.000\n"}[kind]


@pytest.mark.parametrize("compiler,kind", [("gcc", "c"), ("g++", "cpp"), ("clang++", "cpp")])
@pytest.mark.parametrize("static", [False, True])
def test_pkg_config_builds_c_and_cpp(prefix, tmp_path, compiler, kind, static):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    libraries = flags(prefix, "--libs", "--static") if static else flags(prefix, "--libs")
    if static:
        libraries = [str(library_folder(prefix) / "libworker.a") if word == "-lworker" else word for word in libraries]
    run_path = [f"-Wl,-rpath,{library_folder(prefix)}"]
    done([compiler, "-O1", *STRICT, PROGRAMS / f"program.{kind}", *flags(prefix, "--cflags"), *libraries, *run_path, "-o", tmp_path / "program"])
    check_output(kind, done([tmp_path / "program"], env=quiet_environment()))
    assert ("libworker" in done(["ldd", tmp_path / "program"])) != static


def test_nvcc_builds_a_program_with_passes_on_a_gpu(prefix, tmp_path):
    if not NVCC:
        pytest.skip("nvcc is not installed")
    done([NVCC, "-O1", PROGRAMS / "program.cu", *flags(prefix, "--cflags"), *flags(prefix, "--libs"), "-Xlinker", f"-rpath={library_folder(prefix)}", "-o", tmp_path / "program"])
    check_output("cu", done([tmp_path / "program"], env=quiet_environment()))


def test_find_package_gives_both_libraries(prefix, tmp_path):
    done(["cmake", "-S", PROGRAMS, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}"], env=quiet_environment())
    done(["cmake", "--build", tmp_path], env=quiet_environment())
    for kind in ("c", "cpp"):
        for library in ("worker", "worker_static"):
            check_output(kind, done([tmp_path / f"{kind}_{library}"], env=quiet_environment()))
            assert ("libworker.so" in done(["ldd", tmp_path / f"{kind}_{library}"])) == (library == "worker")


def test_find_package_refuses_another_version(prefix, tmp_path):
    for wanted in ("0.0", f"{version()[0]}.{version()[1] + 1}"):
        (tmp_path / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES C)\nfind_package(muster {wanted} REQUIRED)\n")
        ended = subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "b", f"-DCMAKE_PREFIX_PATH={prefix}"], capture_output=True, text=True, timeout=HANG_SECONDS, env=quiet_environment())
        assert ended.returncode != 0 and "considered but not accepted" in ended.stderr, ended.stderr


def soname(library):
    return re.search(r"SONAME\s+(\S+)", done(["objdump", "-p", library])).group(1)


def test_the_library_has_a_versioned_soname(prefix):
    major, minor, patch = version()
    folder = library_folder(prefix)
    assert soname(folder / "libworker.so") == f"libworker.so.{major}.{minor}"
    assert (folder / f"libworker.so.{major}.{minor}").resolve() == folder / f"libworker.so.{major}.{minor}.{patch}"
    assert done([MUSTER, "version", "--client"]).startswith(f"muster {major}.{minor}.{patch}")


def test_the_debian_package_brings_all_of_it(tmp_path):
    if not shutil.which("dpkg-deb") or not shutil.which("cpack"):
        pytest.skip("dpkg-deb or cpack is not installed")
    done(["cpack", "--config", BUILD / "CPackConfig.cmake", "-B", tmp_path], cwd=tmp_path)
    package = next(tmp_path.glob("muster_*.deb"))
    done(["dpkg-deb", "-R", package, tmp_path / "tree"])
    prefix = tmp_path / "tree/usr"
    files = {str(path.relative_to(prefix)) for path in prefix.rglob("*")}
    dotted = ".".join(str(part) for part in version())
    for name in ("libworker.so", f"libworker.so.{dotted}", "libworker.a", "pkgconfig/muster.pc", "cmake/muster/muster-config.cmake"):
        assert any(re.fullmatch(rf"lib(/[^/]+)?/{re.escape(name)}", file) for file in files), name
    assert {f"lib/python3/dist-packages/muster/{path.name}" for path in (ROOT / "python/muster").glob("*.*")} <= files
    program = "import muster\nwith muster.Worker() as worker:\n    print(worker.rank, worker.world)"
    assert done(["/usr/bin/python3", "-c", program], env=quiet_environment(PYTHONPATH=str(prefix / "lib/python3/dist-packages"))) == "0 1\n"
    assert (tmp_path / "tree/DEBIAN/shlibs").read_text().startswith(f"libworker {version()[0]}.{version()[1]} muster")
    done(["g++", PROGRAMS / "program.cpp", *flags(prefix, "--cflags"), *flags(prefix, "--libs"), f"-Wl,-rpath,{library_folder(prefix)}", "-o", tmp_path / "program"])
    check_output("cpp", done([tmp_path / "program"], env=quiet_environment()))
    check_the_package_of_the_module(tmp_path)


def check_the_package_of_the_module(folder):
    """It is for this very build, and dpkg-shlibdeps was not asked for cuBLASLt."""
    packages = list(folder.glob("libworker-cuda_*.deb"))
    assert bool(packages) == (BUILD / "libworker-cuda.so").exists()
    for package in packages:
        told = done(["dpkg-deb", "-I", package])
        assert f"Depends: muster (= {'.'.join(map(str, version()))}), libc6\n" in told and "Recommends: libcublas-" in told
        assert "libworker-cuda.so\n" in done(["dpkg-deb", "-c", package])
