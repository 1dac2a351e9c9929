"""One run from the options to the report: prepare, measure, keep the evidence, judge, report."""
