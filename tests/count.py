"""Counts test cases in the reports of ctest, GoogleTest and pytest."""

import dataclasses
import pathlib
import xml.etree.ElementTree as ElementTree


@dataclasses.dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    notes: list = dataclasses.field(default_factory=list)  # each failed and each skipped case, in words

    def __add__(self, other):
        return Count(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.notes + other.notes,
        )

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    def add(self, name, outcome, why=""):
        setattr(self, outcome, getattr(self, outcome) + 1)
        if outcome != "passed":
            self.notes.append(f"{outcome}: {name}" + (f" ({why})" if why else ""))

    def including_exit(self, code, program):
        """A program that failed without a failed case (a crash, no report) counts as one failure."""
        if code != 0 and self.failed == 0:
            self.add(f"{program} ended with code {code}", "failed")
        return self


def _cases(path):
    return ElementTree.parse(path).getroot().iter("testcase")


def _why(case, tag):
    element = case.find(tag)
    return (
        (element.get("message") or "").splitlines()[0][:200] if element is not None and element.get("message") else ""
    )


def of_pytest(path):
    count = Count()
    if not path.exists():
        return count
    for case in _cases(path):
        name = f"{case.get('classname')}::{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            count.add(name, "failed")
        elif case.find("skipped") is not None:
            count.add(name, "skipped", _why(case, "skipped"))
        else:
            count.add(name, "passed")
    return count


def of_gtest(path):
    count = Count()
    for case in _cases(path):
        name = f"{path.stem}: {case.get('classname')}.{case.get('name')}"
        if case.find("failure") is not None:
            count.add(name, "failed")
        elif case.get("result") == "skipped" or case.get("status") == "notrun":
            count.add(name, "skipped", _why(case, "skipped"))
        else:
            count.add(name, "passed")
    return count


def of_ctest(ctest_xml, gtest_folder):
    """Every case of the GoogleTest programs; a ctest test without such a report, or one that failed although all of its
    reported cases passed (a crash at exit, a sanitizer), counts as one case."""
    total = Count()
    if not ctest_xml.exists():
        return total
    reports = {path.stem: path for path in pathlib.Path(gtest_folder).glob("*.xml")}
    for case in _cases(ctest_xml):
        name, failed = case.get("name"), case.get("status") == "fail"
        count = Count()
        if name in reports:
            try:
                count = of_gtest(reports.pop(name))
            except ElementTree.ParseError:
                count = Count()  # cut short: the program crashed
        if failed and count.failed == 0:
            count.add(name, "failed")
        elif case.get("status") in ("notrun", "disabled"):
            count.add(name, "skipped", case.get("status"))
        elif count.passed + count.failed + count.skipped == 0:
            count.add(name, "passed")
        total = total + count
    for path in reports.values():
        total = total + of_gtest(path)
    return total
