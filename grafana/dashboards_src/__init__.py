"""The four Grafana dashboards as code.

`python -m grafana.dashboards_src` writes grafana/dashboards/*.json and the panel tables of docs/dashboards.md; with
`--check` it only says whether they are as they should be, and holds every dashboard to the rules of `lint`.
"""

import warnings

# The SDK says at import that there are newer kinds of dashboard. The classic one is what every Grafana imports.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import grafana_foundation_sdk.builders.bargauge
    import grafana_foundation_sdk.builders.dashboard  # noqa: F401
