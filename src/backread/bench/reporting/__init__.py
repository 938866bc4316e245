"""The parts of a report: made of rows alone, before they are Markdown or HTML."""
