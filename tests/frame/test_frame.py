"""What holds for the whole tree: no traces of a machine, short files, a complete lock, layers."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import gateway
from tests.frame.tree import ROOT, project_files, pyproject

LONGEST_FUNCTION = 60
INDEX_URL = re.compile(r"https?://(?:registry|files|deb|security)\.[a-z]|https?://[a-z.]+/simple\b")
MACHINE_PATH = re.compile(r"(?<![\w.~/-])/(?:root|work|opt/pypi|opt/wheels)/\w")
PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[^ ;]+)(?: ; [^#@/]+)? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?")


def _text(path: Path) -> str:
    """Return a file's text; pictures and other binary files have none."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def _lock_lines() -> list[str]:
    return (ROOT / "requirements.lock").read_text().splitlines()


def _pins() -> dict[str, Version]:
    found = filter(None, map(PIN.fullmatch, _lock_lines()))
    return {match["name"]: Version(match["version"]) for match in found}


def _wanted() -> Iterator[Requirement]:
    project = pyproject()["project"]
    groups = [
        project["dependencies"],
        *project["optional-dependencies"].values(),
        pyproject()["dependency-groups"]["dev"],
        pyproject()["build-system"]["requires"],
    ]
    found = (Requirement(text) for group in groups for text in group)
    return (wanted for wanted in found if wanted.name != project["name"])


@pytest.mark.parametrize("pattern", [INDEX_URL, MACHINE_PATH], ids=["index", "path"])
def test_no_file_names_a_package_index_or_a_machine_path(pattern: re.Pattern[str]) -> None:
    """A clone on any machine is the same project: nothing in it tells where it was made."""
    hits = {
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in project_files()
        for match in pattern.finditer(_text(path))
    }
    assert not hits


def test_the_patterns_find_what_they_are_for() -> None:
    """The check above would see an index URL and a path of a machine if there were one."""
    assert INDEX_URL.search("https:" + "//registry.example.org")
    assert INDEX_URL.search("--index-url https:" + "//mirror.example/simple")
    assert MACHINE_PATH.search("made in /" + "root/project")
    assert not MACHINE_PATH.search("the bookroot/page and ~root/page")


def test_functions_stay_short_and_classes_have_names_of_their_own() -> None:
    """No function of the product is longer than a screen; one word means one class."""
    lengths: dict[str, int] = {}
    classes: dict[str, list[str]] = {}
    for path in project_files(".py"):
        name = path.relative_to(ROOT)
        if name.parts[0] not in ("gateway", "adapters"):
            continue
        for node in ast.walk(ast.parse(_text(path))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lengths[f"{name}:{node.name}"] = (node.end_lineno or 0) - node.lineno + 1
            elif isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(str(name))
    assert {name: n for name, n in lengths.items() if n > LONGEST_FUNCTION} == {}
    assert {name: files for name, files in classes.items() if len(files) > 1} == {}


# A program on a simulated clock, where a day passes at once, and the pause before tests look again.
PAUSES = {"soak.py", "waiting.py"}


def test_tests_do_not_wait_for_time_to_pass() -> None:
    """Tests wait on conditions and events. They may yield (`sleep(0)`), and look again a moment
    later."""
    sleeps = {
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in project_files(".py")
        if path.is_relative_to(ROOT / "tests")
        and path.name not in PAUSES
        and "sleep" in _text(path)
        for node in ast.walk(ast.parse(_text(path)))
        if isinstance(node, ast.Call) and _is_sleep(node)
    }
    assert not sleeps


def _is_sleep(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    return name in {"time.sleep", "asyncio.sleep", "sleep"} and ast.unparse(call.args[0]) != "0"


def test_the_lock_holds_nothing_but_pins_and_hashes() -> None:
    """Every line is a pin or a hash: no index, no link, no comment that says where it was made."""
    strange = [line for line in _lock_lines() if not (PIN.fullmatch(line) or HASH.fullmatch(line))]
    assert not strange


def test_every_pin_has_a_hash() -> None:
    """`pip install --require-hashes` can check each package of the lock."""
    lines = _lock_lines()
    pairs = zip(lines, [*lines[1:], ""], strict=True)
    bare = [line for line, after in pairs if PIN.fullmatch(line) and not HASH.fullmatch(after)]
    assert not bare


def test_the_extra_all_is_every_extra() -> None:
    """`approval-gateway[all]` installs what each extra installs, a new one too."""
    extras = {**pyproject()["project"]["optional-dependencies"]}
    (every,) = map(Requirement, extras.pop("all"))
    assert (every.name, every.extras) == (pyproject()["project"]["name"], set(extras))


def test_every_package_has_the_same_version() -> None:
    """What one tag releases carries one number: the wheels read it from the code."""
    npm = json.loads((ROOT / "packaging" / "typescript" / "package.json").read_text())
    assert npm["version"] == gateway.__version__
    chart = yaml.safe_load((ROOT / "deploy/helm/approval-gateway/Chart.yaml").read_text())
    assert {chart["version"], chart["appVersion"]} == {gateway.__version__}
    for folder in (".", "packaging/agent"):
        path = ROOT / folder / pyproject(folder)["tool"]["hatch"]["version"]["path"]
        assert path.resolve() == ROOT / "gateway" / "__init__.py"


def test_the_lock_satisfies_the_project() -> None:
    """Every dependency of product, extras, tools and build is pinned within its bounds."""
    pins = _pins()
    unmet = [str(wanted) for wanted in _wanted() if not _meets(pins, wanted)]
    assert not unmet, "run `make lock`"


def _meets(pins: dict[str, Version], wanted: Requirement) -> bool:
    pin = pins.get(canonicalize_name(wanted.name))
    return pin is not None and wanted.specifier.contains(pin, prereleases=True)
