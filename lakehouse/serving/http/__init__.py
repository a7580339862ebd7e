"""What the API and the pages share: cached published numbers, parameters, answers, errors, authentication, limits."""
