"""All tables and figures of the five papers: measure or resume them, and write one summary page.

    python -m benchmarks.papers [--paper NAME] [--quick] [--summary]

Runs the scripts of `PAPERS` one after another, each in a process of its own; rows already measured are read back, so
that an interrupted run goes on. Then writes the tables of docs/papers (docs/results.py) and docs/papers/summary.md
from what is stored. `--summary` measures nothing: it judges the stored rows anew. `--quick` runs the small subsets
and prints their summary, but writes no page.

What the summary reads of a stored row (see `benchmarks.harness.Run`): the values ``paper``, ``paper_sd`` (the paper's
own deviation, where it prints one), ``ours`` and ``spread`` (our deviation); the verdict of the row's target; its
table: the argument `table` of `Run.row`, or the beginning of the row's name if that is "Table 1, ..." or "Figure 2,
...", or the script's title in `PAPERS`. Rows with neither a target nor a figure of the paper are left out. A script
may have a dictionary ``CAUSES``: beginning of a row's name -> the tested cause of its miss.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness import RESULTS, ROOT


class Paper(NamedTuple):
    """A paper: how it is cited, its page in docs/papers, and its scripts with the title of rows that name no table."""

    title: str
    page: str
    scripts: dict[str, str]


PAPERS: dict[str, Paper] = {
    "spsvm": Paper(
        "Keerthi, Chapelle and DeCoste 2006",
        "spsvm.md",
        {"spsvm_table1": "Table 1", "spsvm_figures": "Figures 1 to 8"},
    ),
    "fee": Paper(
        "Navia-Vazquez and Diaz-Morales 2010", "fee.md", {"fee_exact": "Table 2", "fee_tables": "Tables 2 and 3"}
    ),
    "fixed_size": Paper(
        "De Brabanter et al. 2010",
        "fixed_size.md",
        {
            "fslssvm_tables": "Tables 8 to 13",
            "fslssvm_cv": "Tables 3 and 4: cross-validation",
            "fslssvm_entropy": "Figure 1: entropy",
            "fslssvm_small": "prototypes among few rows",
            "fslssvm_causes": "causes of misses",
        },
    ),
    "local_sampling": Paper(
        "Barcenas, Gonzalez-Lima and Quiroz 2018",
        "local_sampling.md",
        {
            "local_sampling_ratios": "Tables 2 to 5: ratios to the full SVM",
            "local_sampling_tables": "Tables 2 to 7, 10 and 11",
        },
    ),
    "projection": Paper("Franc and Hlavac 2003", "projection.md", {"projection_tables": "Tables 1 and 2, Figure 1"}),
}

PAGE = ROOT / "docs" / "papers" / "summary.md"
#: what the commit of a row says that was copied from a page
READ_BACK = "read back"
NAMED_TABLE = re.compile(r"((?:Table|Figure)s? \d+)[,:]? *(.*)")


def stored_rows(script: str, title: str, quick: bool) -> Iterator[dict[str, Any]]:
    """The last measurement of every row of a script that has a target or a figure of the paper."""
    path = RESULTS / f"{script}.jsonl"
    found: dict[str, dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            record = json.loads(line)
            _, name, params = json.loads(record["key"])
        except (json.JSONDecodeError, KeyError, ValueError):
            continue  # cut short by an interruption; the script says so when it runs
        if bool(params.get("quick")) == quick:
            found[name] = record
    causes: dict[str, str] = {}
    if found:
        causes = getattr(importlib.import_module(f"benchmarks.papers.{script}"), "CAUSES", {})
    for name, record in found.items():
        values = record["values"]
        if "ours" not in values or not (record.get("verdict") or values.get("paper") is not None):
            continue
        named = NAMED_TABLE.match(name)
        table = record.get("table") or (named[1] if named else title)
        missed = record.get("verdict") == "missed"
        yield {
            "table": table,
            "row": named[2] if named and named[1] == table and named[2] else name,
            "values": values,
            "unit": record.get("unit", ""),
            "target": record.get("target", ""),
            "verdict": record.get("verdict", ""),
            "commit": record.get("commit", "-"),
            "cause": next((text for start, text in causes.items() if missed and name.startswith(start)), ""),
        }


def figure(value: Any, deviation: Any) -> str:
    """A number with its deviation, if there is one."""
    if value is None or isinstance(value, str):
        return value or "-"
    return f"{value:.4g}" + (f" ± {deviation:.2g}" if deviation is not None else "")


def rows_of_tables(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    tables: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        tables.setdefault(row["table"], []).append(row)
    return tables


def overview(paper: Paper, rows: list[dict[str, Any]]) -> list[str]:
    """One line for every table: rows met / rows, rows that were not run, and the rows missed with their causes."""
    lines = []
    for table, own in rows_of_tables(rows).items():
        judged = [row for row in own if row["verdict"]]
        missed = "; ".join(
            row["row"] + (f" ({row['cause']})" if row["cause"] else "") for row in judged if row["verdict"] == "missed"
        )
        met = sum(row["verdict"] == "met" for row in judged)
        count = f"{met} / {len(judged)}" if judged else f"{len(own)} reported"
        copied = sum(READ_BACK in row["commit"] for row in own)
        lines.append(f"| [{paper.title}]({paper.page}) | {table} | {count} | {copied or '-'} | {missed or '-'} |")
    return lines


def details(paper: Paper, rows: list[dict[str, Any]]) -> list[str]:
    """Every row of a paper: the paper's figure, ours, their difference in the paper's deviations, the verdict."""
    lines = [f"## {paper.title}", ""]
    for table, own in rows_of_tables(rows).items():
        lines += [f"### {paper.title}: {table}", ""]
        lines += [
            "| row | paper | here | difference / paper's sd | target | verdict | commit |",
            "|---|---|---|---|---|---|---|",
        ]
        for row in own:
            values, unit = row["values"], f", {row['unit']}" if row["unit"] else ""
            paper_sd = values.get("paper_sd")
            difference = f"{(values['ours'] - values['paper']) / paper_sd:+.1f}" if paper_sd else "-"
            there = figure(values.get("paper"), paper_sd)
            here = figure(values["ours"], values.get("spread"))
            cells = [row["row"] + unit, there, here, difference, row["target"] or "-", row["verdict"] or "reported"]
            cells.append(row["commit"])
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return lines


def summary_page(found: dict[str, list[dict[str, Any]]]) -> str:
    """The whole page."""
    lines = [
        "# Summary of all tables",
        "",
        "Written by `python -m benchmarks.papers` from the rows in `benchmarks/results`; `--summary` measures nothing.",
        'A row is "met" if it reaches its target; "sd" is the standard deviation that the paper prints. Rows without',
        "a target are reported only. In brackets after a missed row: the cause that was tested.",
        "Rows that were read back were not run, but copied from a page of an earlier commit;",
        "the last column of the tables below says which.",
        "",
        "| paper | table or figure | rows met / rows | of these read back | missed |",
        "|---|---|---|---|---|",
    ]
    for name, rows in found.items():
        none = [f"| [{PAPERS[name].title}]({PAPERS[name].page}) | - | nothing stored | - | - |"]
        lines += overview(PAPERS[name], rows) if rows else none
    lines.append("")
    for name, rows in found.items():
        lines += details(PAPERS[name], rows) if rows else []
    return "\n".join(lines).rstrip("\n") + "\n"


def main(argv: list[str] | None = None, page: Path = PAGE) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--paper", choices=list(PAPERS), help="only this paper's scripts")
    parser.add_argument("--quick", action="store_true", help="small subsets, a few minutes each; no page is written")
    parser.add_argument("--summary", action="store_true", help="measure nothing: the summary of what is stored")
    options = parser.parse_args(argv)
    failed = []
    for name in [options.paper] if options.paper else PAPERS:
        for script in PAPERS[name].scripts:
            command = [sys.executable, "-m", f"benchmarks.papers.{script}"] + ["--quick"] * options.quick
            if options.summary and not (RESULTS / f"{script}.jsonl").is_file():
                continue
            # rows are judged by the targets of today
            command += ["--stored"] * options.summary
            if subprocess.run(command, cwd=ROOT, check=False).returncode:
                failed.append(script)
    found = {
        name: [row for script, title in paper.scripts.items() for row in stored_rows(script, title, options.quick)]
        for name, paper in PAPERS.items()
    }
    if options.quick:
        print(summary_page(found))
    else:
        page.write_text(summary_page(found))
        print("\n".join(line for rows in found for line in overview(PAPERS[rows], found[rows])))
        print(f"summary in {page}")
        if page == PAGE:
            subprocess.run([sys.executable, str(ROOT / "docs" / "results.py")], cwd=ROOT, check=True)
    if failed:
        print(f"with missed rows: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
