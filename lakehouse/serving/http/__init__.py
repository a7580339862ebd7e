"""Shared code of the API and the pages: cached tables, parameters, responses, problems, authentication, request limits."""
