"""What the API and the pages share: cached tables, parameters, responses, problems, authentication, and limits of requests."""
