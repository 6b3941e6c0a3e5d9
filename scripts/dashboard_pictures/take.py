"""Pictures of the dashboards with real data: python scripts/dashboard_pictures/take.py [--data DIR] [--only NAME]

Drives real load once (about twelve minutes, unless DIR has a drive already), asks the Prometheus over it what Grafana
would ask, lays each dashboard out as Grafana does, draws it with Grafana's own components in Chromium, and writes
docs/pictures/dashboard-NAME.png. No Grafana server has part in it. Needs node with npm, Chromium and Prometheus. What
npm fetches lies in ${XDG_CACHE_HOME:-~/.cache}/specload/dashboard-pictures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import answers
import drive
from browser import shoot

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "specload" / "dashboard-pictures"
DASHBOARDS = ROOT / "grafana" / "dashboards"
PICTURES = ROOT / "docs" / "pictures"
#: Which drive a dashboard shows: its time range and, by the variable run_id, its run.
SHOWN = {"run": "ab", "ab": "ab", "sweep": "sweep", "canary": "canary"}
NPM = ("npm", "install", "--ignore-scripts", "--legacy-peer-deps", "--no-package-lock", "--no-audit", "--no-fund")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("runs/dashboard-pictures"), help="folder of the drive")
    parser.add_argument("--only", choices=sorted(SHOWN), action="append", help="one dashboard; repeatable")
    parser.add_argument("--soak", type=float, default=600, help="seconds the canary is watched")
    parser.add_argument("--dark", action="store_true", help="dark theme; the names end with -dark")
    given = parser.parse_args()
    data = given.data.resolve()
    bundle = bundled()
    if not (data / "drive.json").exists():
        asyncio.run(drive.drive(data, given.soak))
    empty = asyncio.run(pictured(data, bundle, given.only or sorted(SHOWN), given.dark))
    for panel in empty:
        print(f"no data: {panel}", file=sys.stderr)
    return 1 if empty else 0


def bundled() -> Path:
    """The folder of dashboard.js and dashboard.css; asks npm where its packages are not as package.json says."""
    CACHE.mkdir(parents=True, exist_ok=True)
    wanted, installed = HERE / "package.json", CACHE / "package.json"
    if not (CACHE / "node_modules").exists() or installed.read_text() != wanted.read_text():
        shutil.copy(wanted, installed)
        subprocess.run(NPM, cwd=CACHE, check=True)
    out = CACHE / "bundle"
    esbuild = next((CACHE / "node_modules" / "@esbuild").glob("*/bin/esbuild"))
    options = (
        "--bundle", "--minify", "--jsx=automatic", '--define:process.env.NODE_ENV="production"', "--log-level=warning",
        "--loader:.ttf=empty", f"--outfile={out / 'dashboard.js'}",
    )  # fmt: skip
    modules = {**os.environ, "NODE_PATH": str(CACHE / "node_modules")}
    subprocess.run([esbuild, HERE / "dashboard.tsx", *options], env=modules, check=True)
    return out


async def pictured(data: Path, bundle: Path, names: list[str], dark: bool) -> list[str]:
    """Writes the pictures; the panels without data."""
    times = json.loads((data / "drive.json").read_text())
    boards = {name: json.loads((DASHBOARDS / f"{name}.json").read_text()) for name in SHOWN}
    PICTURES.mkdir(exist_ok=True)
    empty: list[str] = []
    async with drive.stored(data) as url:
        for name in names:
            others = [board["title"] for other, board in boards.items() if other != name]
            page = await answers.page(url, boards[name], times[SHOWN[name]], others, dark)
            (data / f"page-{name}.json").write_text(json.dumps(page))
            picture = PICTURES / f"dashboard-{name}{'-dark' if dark else ''}.png"
            empty += [f"{name}: {panel}" for panel in await shoot(page, bundle, CACHE / "node_modules", picture)]
            print(f"{picture.relative_to(ROOT)}: {picture.stat().st_size / 1000:.0f} kB")
    return empty


if __name__ == "__main__":
    sys.exit(main())
