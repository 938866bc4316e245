"""The operations of the REST API, one module for each thing people do."""
