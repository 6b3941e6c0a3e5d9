"""The four Grafana dashboards as code.

`python -m grafana.dashboards_src` writes grafana/dashboards/*.json and the panel tables of docs/dashboards.md; with
`--check` it only says whether they are as they should be, and holds every dashboard to the rules of `lint`.
"""
