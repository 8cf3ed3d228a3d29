"""The first screen of a report: what was tested, the answer, large figures and doubts."""
