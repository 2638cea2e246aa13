"""The command that checks a problem."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from memgrad.cli.layout import print_json
from memgrad.cli.options import AsJson, ProblemName, Sample

if TYPE_CHECKING:
    from memgrad.problems import Report

MARKS = {"passed": "[green]passed[/]", "failed": "[bold red]failed[/]", "skipped": "[yellow]skipped[/]"}


def check(
    problem: ProblemName,
    sample: Sample = False,
    as_json: AsJson = False,
) -> None:
    """Check whether your problem can be used in experiments: shapes, gradients, determinism and more.

    The name after the file defaults to `problem`. The problem is first built twice, in fresh processes, to find
    randomness without a seed. The exit code is 1 if a check fails.

    For example:

    - `memgrad check my_problem.py`
    - `memgrad check my_problem.py:problem`
    - `memgrad check cifar10-cnn --sample`
    """
    from memgrad.extras import require

    require("memgrad check", extra="torch", modules=("torch",))
    from memgrad.problems.rebuild import check_by_name

    report = check_by_name(problem, sample=sample)
    if as_json:
        print_json({"problem": report.problem, "findings": [asdict(each) for each in report.findings]})
    else:
        _show(report)
    if not report.passed:
        raise typer.Exit(1)


def _show(report: Report) -> None:
    table = Table("check", "", "result", title=f"problem {escape(report.problem)}", title_justify="left")
    for finding in report.findings:
        table.add_row(finding.check, MARKS[finding.status], escape(finding.message))
    console = Console()
    console.print(table)
    failed = len(report.failed)
    console.print("All checks passed." if report.passed else f"{failed} of {len(report.findings)} checks failed.")
