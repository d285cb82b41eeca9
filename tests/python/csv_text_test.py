import pandas as pd

from kvsim.command.csv_text import csv_text


def test_csv_marks_what_a_spreadsheet_would_run_and_says_so(capsys):
    frame = pd.DataFrame({"policy": ["=mine", "'@b", "h2o", None], "kl": [-1.5, 2, 3, 4]})
    assert csv_text(frame) == "policy,kl\n'=mine,-1.5\n''@b,2.0\nh2o,3.0\n,4.0\n"
    assert capsys.readouterr().err == (
        "kvsim: a spreadsheet would run some texts of policy as formulas: they have a ' before "
        "them; --format json has them as they are\n"
    )
    assert csv_text(frame[["kl"]]).startswith("kl\n-1.5\n")
    assert capsys.readouterr().err == ""
