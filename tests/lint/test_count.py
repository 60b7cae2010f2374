"""The closing count of tests/run tells the truth about reports of every kind."""

import count

GTEST = """<testsuites><testsuite name="S"><testcase name="a" status="run" result="completed" classname="S"/>
<testcase name="b" status="run" result="completed" classname="S"><failure message="x"/></testcase>
<testcase name="c" status="run" result="skipped" classname="S"><skipped message="no device"/></testcase>
<testcase name="d" status="notrun" result="suppressed" classname="S"/></testsuite></testsuites>"""
CTEST = """<testsuite><testcase name="unit_a" status="fail"/><testcase name="unit_crash" status="fail"/>
<testcase name="unit_cut" status="fail"/><testcase name="unit_leak" status="fail"/><testcase name="plain" status="run"/>
<testcase name="missing" status="notrun"/></testsuite>"""
CLEAN = """<testsuites><testsuite name="S"><testcase name="a" status="run" result="completed" classname="S"/>
<testcase name="b" status="run" result="completed" classname="S"/></testsuite></testsuites>"""
PYTEST = """<testsuites><testsuite><testcase classname="t" name="a"/>
<testcase classname="t" name="b"><failure/></testcase>
<testcase classname="t" name="c"><error/></testcase><testcase classname="t" name="d"><skipped message="why"/></testcase>
</testsuite></testsuites>"""


def test_ctest_and_gtest(tmp_path):
    (tmp_path / "ctest.xml").write_text(CTEST, encoding="utf-8")
    (tmp_path / "gtest").mkdir()
    for name, text in (("unit_a", GTEST), ("unit_cut", GTEST[:80]), ("unit_leak", CLEAN)):
        (tmp_path / "gtest" / f"{name}.xml").write_text(text, encoding="utf-8")
    found = count.of_ctest(tmp_path / "ctest.xml", tmp_path / "gtest")
    # unit_a: 1 passed, 1 failed, 2 skipped; crash, cut and leak: 1 failed each, and leak's 2 passed; plain: 1 passed;
    # missing: 1 skipped.
    assert str(found) == "4 passed, 4 failed, 3 skipped"
    assert "skipped: unit_a: S.c (no device)" in found.notes


def test_pytest(tmp_path):
    (tmp_path / "p.xml").write_text(PYTEST, encoding="utf-8")
    assert str(count.of_pytest(tmp_path / "p.xml")) == "1 passed, 2 failed, 1 skipped"


def test_a_program_that_leaves_no_report_is_a_failure(tmp_path):
    assert str(count.of_pytest(tmp_path / "none.xml").including_exit(3, "pytest")) == "0 passed, 1 failed, 0 skipped"
    assert (
        str(count.of_ctest(tmp_path / "none.xml", tmp_path).including_exit(0, "ctest"))
        == "0 passed, 0 failed, 0 skipped"
    )
