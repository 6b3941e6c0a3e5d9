"""Uploads: how many, how large, how whole, and whose."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from loadgen.service.config import Folders, LimitKeys
from loadgen.service.runner import keeping
from loadgen.service.scenarios import NoRoom, Shelf
from tests.service.conftest import MakeInside, scenario

YAML = {"Content-Type": "application/yaml"}


def shelf(folder: Path, **limits: int) -> Shelf:
    return Shelf(Folders(scenarios=folder / "scenarios", uploads=folder / "uploads"), LimitKeys(**limits))


def test_uploads_at_once_do_not_mix(tmp_path: Path) -> None:
    """What is there is what one of them sent, whole; nothing else is left; nobody else reads it."""
    made, texts = shelf(tmp_path), [str(i).encode() * 100_000 for i in range(8)]
    threads = [threading.Thread(target=made.put, args=("mine", text)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (file,) = (tmp_path / "uploads").iterdir()
    assert file.read_bytes() in texts
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_there_are_so_many_and_so_large(tmp_path: Path) -> None:
    made = shelf(tmp_path, uploads=2, upload_bytes=2048)
    assert made.put("a", b"x" * 1000)
    assert made.put("b", b"x" * 1000)
    assert not made.put("b", b"x" * 1048)
    with pytest.raises(NoRoom, match=r"limits\.upload_bytes"):
        made.put("b", b"x" * 1049)
    with pytest.raises(NoRoom, match=r"limits\.uploads"):
        made.put("c", b"x")
    made.delete("a")
    assert made.put("c", b"x" * 1000)
    assert sorted(file.name for file in (tmp_path / "uploads").iterdir()) == ["b.yaml", "c.yaml"]


def test_what_a_killed_service_left_half_written_goes(tmp_path: Path) -> None:
    made = shelf(tmp_path)
    made.put("a", b"x")
    (tmp_path / "uploads" / ".a.abc.part").write_bytes(b"hal")
    made.tidy()
    assert [file.name for file in (tmp_path / "uploads").iterdir()] == ["a.yaml"]


async def test_a_full_shelf_is_said(inside: MakeInside) -> None:
    async with inside(limits={"uploads": 1, "requests_per_minute": 1000}) as service:
        for name, status in (("a", 201), ("b", 507), ("a", 200)):
            answer = await service.ask("PUT", f"/api/v1/scenarios/{name}", content=scenario(), headers=YAML)
            assert answer.status_code == status, answer.text
            if status == 507:
                assert answer.json()["type"] == "urn:specload:problem:uploads-full"


async def test_the_service_answers_while_records_are_deleted(
    inside: MakeInside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large run directory takes its time; nobody else waits for it."""
    begun, go_on, erase = threading.Event(), threading.Event(), keeping.erase

    def slow(path: Path, folder: Path, run_id: str) -> str | None:
        begun.set()
        assert go_on.wait(60)
        return erase(path, folder, run_id)

    monkeypatch.setattr(keeping, "erase", slow)
    async with inside() as service:
        path = tmp_path / "runs" / "r"
        path.mkdir()
        assert (path.parent.stat().st_mode & 0o777) == 0o700
        service.service.registry.runs.add("r", "small", state="finished", path=str(path))
        deleting = asyncio.create_task(service.ask("DELETE", "/api/v1/runs/r"))
        try:
            async with asyncio.timeout(60):
                while not begun.is_set():  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
            assert (await service.ask("GET", "/api/v1/runs/r")).json()["state"] == "finished"
        finally:
            go_on.set()
        assert (await deleting).json()["state"] == "deleted"
        assert not path.exists()
