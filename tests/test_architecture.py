"""The import direction between rooms (docs/architecture.md): one way, public names only."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

#: Rooms in the order of the data; a room may import only rooms of a lower rank.
RANK = {
    "scenario": 1,
    "plan": 2,
    "control": 3,
    "drive": 4,
    "observe": 4,
    "record": 5,
    "analyze": 6,
    "verdict": 7,
    "report": 8,
    "export": 8,
    "experiment": 9,
    "service": 10,
    "cli": 11,
    "__main__": 12,
}
#: Modules without a rank: any room may import them, and they import no room.
LEAVES = {"errors", "clock", "processes", "redact"}
PURE = {"plan", "control", "analyze", "verdict"}
#: Modules that do I/O or read a clock; forbidden in pure rooms.
IMPURE_IMPORTS = {
    "time", "datetime", "random", "asyncio", "httpx", "socket", "subprocess", "os", "logging", "pathlib",
    "threading", "multiprocessing", "tempfile", "shutil", "psutil",
}  # fmt: skip


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def room_of(dotted: str) -> str:
    parts = dotted.split(".")
    return parts[1] if len(parts) > 1 else ""


def imports(path: Path) -> list[tuple[str, list[str]]]:
    """(module, names) of every import statement, `import x.y` giving no names."""
    found: list[tuple[str, list[str]]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import; write the whole name"
            found.append((node.module, [a.name for a in node.names]))
        elif isinstance(node, ast.Import):
            found += [(a.name, []) for a in node.names]
    return found


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("path", modules("loadgen"), ids=dotted)
def test_rooms_import_only_leftward_public_names(path: Path) -> None:
    here = room_of(dotted(path))
    for module, names in imports(path):
        if not module.startswith("loadgen"):
            continue
        there = room_of(module)
        if not there:  # from loadgen import __version__
            assert names == ["__version__"], f"{path}: import {names} from its room, not from loadgen"
            continue
        if there == here or there in LEAVES:
            continue
        assert here not in LEAVES, f"{path}: a leaf imports the room {there}"
        assert RANK[there] < RANK[here], f"{path}: {here} imports {there}, which is not to its left"
        assert module == f"loadgen.{there}", f"{path}: import public names from loadgen.{there}, not {module}"


@pytest.mark.parametrize("path", [p for p in modules("loadgen") if room_of(dotted(p)) in PURE], ids=dotted)
def test_pure_rooms_do_no_io_and_read_no_clock(path: Path) -> None:
    for module, _ in imports(path):
        assert module.split(".")[0] not in IMPURE_IMPORTS, f"{path}: a pure room imports {module}"
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"open", "print", "input"}, f"{path}:{node.lineno}: I/O in a pure room"


@pytest.mark.parametrize("path", modules("server_adapters"), ids=dotted)
def test_adapters_do_not_import_loadgen(path: Path) -> None:
    assert not [m for m, _ in imports(path) if m.split(".")[0] == "loadgen"]


@pytest.mark.parametrize("path", modules("server_adapters"), ids=dotted)
def test_rehearsal_engine_shares_nothing_with_the_adapters(path: Path) -> None:
    """A wrong name must not be wrong on both sides."""
    inside = dotted(path).startswith("server_adapters.rehearsal")
    for module, _ in imports(path):
        if module.startswith("server_adapters"):
            assert module.startswith("server_adapters.rehearsal") == inside, f"{path} imports {module}"


@pytest.mark.parametrize("room", sorted(p.name for p in (ROOT / "loadgen").iterdir() if p.is_dir() and p.name in RANK))
def test_public_names_exist(room: str) -> None:
    module = __import__(f"loadgen.{room}", fromlist=["__all__"])
    names = list(module.__all__)
    assert len(names) == len(set(names))
    for name in names:
        assert hasattr(module, name)
