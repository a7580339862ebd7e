"""Write, audit, publish (R8): drafts, candidates and their checks, the commit of revisions, and sign-off of held numbers."""
