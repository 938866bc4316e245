"""The bundled history: a year of conversations between an invented person and her assistant, with questions.

`history.jsonl` is in the format of the JSONL importer; `questions.json` has questions with answers and the ids of the
turns they rest on.
"""
