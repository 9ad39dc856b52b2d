"""What others say of the paper: their claims, judged, and a tutorial's six pairs; only for a scale that asks for them.

The claims are asked for by `has_claims`, the pairs by a row of `replications`. Nothing else imports this package but
`paper_tables.render.tables`, and that only then.
"""
