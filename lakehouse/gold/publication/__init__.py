"""Write, audit, publish (R8): candidates, the checks they must pass, revisions, and sign-off of held numbers."""
