"""What a check of a problem found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final


@final
@dataclass(frozen=True)
class Finding:
    """What came out of one check.

    Args:
        check: Its name.
        status: `passed`, `failed`, or `skipped` because a check it builds upon did not pass.
        message: What was done and what came out; if it failed, also what to change.
    """

    check: str
    status: Literal["passed", "failed", "skipped"]
    message: str


@final
@dataclass(frozen=True)
class Report:
    """What `check_problem` found.

    Args:
        problem: The problem's name.
        findings: One for each check, in the order in which they were made.
    """

    problem: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(finding.status == "passed" for finding in self.findings)

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the checks that failed."""
        return tuple(finding.check for finding in self.findings if finding.status == "failed")

    def __str__(self) -> str:
        marks = {"passed": "ok", "failed": "FAILED", "skipped": "skipped"}
        lines = [f"{marks[finding.status]:8}{finding.check:16}{finding.message}" for finding in self.findings]
        return "\n".join([f"problem {self.problem}", *lines])
