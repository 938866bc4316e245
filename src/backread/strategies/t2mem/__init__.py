"""T2Mem: an index page for each session; memory is built when a question comes, step by step."""
