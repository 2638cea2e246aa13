"""The results of checking a problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final


@final
@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Args:
        check: Its name.
        status: `passed`, `failed`, or `skipped` because a check it depends on did not pass.
        message: What was checked and the result; if it failed, also what to change.
    """

    check: str
    status: Literal["passed", "failed", "skipped"]
    message: str


@final
@dataclass(frozen=True)
class Report:
    """The results of `check_problem`.

    Args:
        problem: The problem's name.
        findings: One per check, in the order in which they ran.
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
