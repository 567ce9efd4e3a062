"""Servers out of the registries of Java, Go and Node, by the toolchain that each of them comes with.

The first call downloads or builds, which takes minutes; later ones find it in the cache.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.servers.cache import kept

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>volley</groupId>
  <artifactId>servers</artifactId>
  <version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_PARTS = ("groupId", "artifactId", "version", "classifier")
_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


def maven(*artifacts: str) -> str:
    """The classpath of `group:artifact:version[:classifier]` and more of them, with all that they need.

    The first names the rest.
    """

    def make(folder: Path) -> None:
        dependencies = "".join(_dependency(artifact) for artifact in artifacts)
        (folder / "pom.xml").write_text(_POM.format(dependencies=dependencies))
        options = ["-q", "-B", "-DincludeScope=runtime", "-DoutputDirectory=lib"]
        _run([tool("mvn", "Maven"), *options, _GOAL], folder)

    name, version = artifacts[0].split(":")[1:3]
    return str(kept(f"{name}-{version}", make) / "lib" / "*")


def _dependency(artifact: str) -> str:
    parts = zip(_PARTS, artifact.split(":"), strict=False)
    return "<dependency>" + "".join(f"<{part}>{text}</{part}>" for part, text in parts) + "</dependency>"


def javac(sources: Sequence[Path], *artifacts: str) -> str:
    """The classpath of programs of our own, compiled against these artifacts, and of the artifacts."""
    classpath = maven(*artifacts)
    # Compiled anew when what it is made of has changed.
    made_of = b"".join(source.read_bytes() for source in sources) + " ".join(artifacts).encode()
    command = [tool("javac", "Java 17"), "-nowarn", "-cp", classpath, *map(str, sources)]
    name = f"{sources[-1].stem}-{hashlib.sha256(made_of).hexdigest()[:12]}"
    return f"{kept(name, lambda new: _run([*command, '-d', str(new)], new))}{os.pathsep}{classpath}"


def go(package: str) -> Path:
    """The program of `module/path@version`."""
    path, version = package.split("@")
    # The last part of a path may be its major version: .../server/v2.
    name = next(part for part in reversed(path.split("/")) if not re.fullmatch(r"v\d+", part))
    folder = kept(
        f"{name}-{version}", lambda new: _run([tool("go", "Go"), "install", package], new, {"GOBIN": str(new)})
    )
    return folder / name


def npm(package: str, script: str) -> Path:
    """The script that `package@version` installs under this name, to be run by Node."""
    name, version = package.rsplit("@", 1)
    command = ["install", "--no-audit", "--no-fund", "--no-package-lock", package]
    folder = kept(
        f"{name.strip('@').replace('/', '-')}-{version}",
        lambda new: _run([tool("npm", "Node"), *command, "--prefix", str(new)], new),
    )
    return folder / "node_modules" / ".bin" / script


def tool(program: str, toolchain: str) -> str:
    """Where a program is. It fails rather than skips: a server that is not tested against is a promise not kept."""
    found = shutil.which(program)
    if found is None:
        raise RuntimeError(f"The tests need {toolchain}: there is no {program!r} on the path. Install {toolchain}.")
    return found


def _run(command: list[str], folder: Path, variables: dict[str, str] | None = None) -> None:
    environment = {**os.environ, **(variables or {})}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed ({done.returncode}):\n{(done.stdout + done.stderr)[-4000:]}")
