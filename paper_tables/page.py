"""The frame of every page that is written: one self-contained file, no script, no font, no image from elsewhere."""

import html

STYLE = """
:root { color-scheme: light; --ink: #1d2733; --soft: #5b6875; --line: #dfe4ea; --ours: #f2f7fd; --accent: #1f5fa8;
  --warn: #9a4a00; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 96rem; background: #fff; color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .4rem; }
h2 { font-size: 1.2rem; margin: 0 0 .3rem; }
p { margin: 0 0 .7rem; max-width: 62rem; }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
code { font: .84em/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
header { border-bottom: 1px solid var(--line); padding-bottom: 1rem; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; margin-top: .9rem; }
section { padding: 1.8rem 0 .4rem; }
.facts { display: flex; flex-wrap: wrap; gap: .5rem; margin: .9rem 0 0; padding: 0; list-style: none; }
.facts li { border: 1px solid var(--line); border-radius: 999px; padding: .12rem .8rem; font-size: .9rem; }
.facts li.bad { border-color: #e8b98a; background: #fff6ec; color: var(--warn); }
.banner { border-left: 4px solid #d9822b; background: #fff8ef; padding: .6rem .9rem; margin: 1rem 0 0;
  max-width: none; }
.caption { color: var(--soft); font-size: .95rem; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .55rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap;
  font-weight: 400; }
thead th { vertical-align: bottom; font-weight: 600; color: var(--soft); background: #fafbfc; white-space: normal; }
thead th.group { text-align: center; color: var(--ink); }
thead th.group:empty { border-bottom-color: transparent; }
tbody th, td.label, thead th.label { text-align: left; }
td.label { white-space: normal; overflow-wrap: anywhere; min-width: 9rem; }
th[scope=row] { position: sticky; left: 0; background: #fff; font-weight: 500; }
td.ours, thead th.ours, tr.ours th, tr.ours td { background: var(--ours); }
td.state { color: var(--warn); font-style: italic; }
td[colspan] { text-align: center; }
tbody tr:last-child > * { border-bottom: 0; }
small { display: block; color: var(--soft); font-size: .85em; line-height: 1.2; }
sup { color: var(--accent); font-size: .72em; line-height: 0; margin-left: .1em; }
td.printed:not(.ours) sup { color: inherit; }
.notes, details ul { color: var(--soft); font-size: .88rem; padding-left: 1.1rem; margin: .6rem 0; max-width: 72rem; }
details { font-size: .9rem; color: var(--soft); }
summary { cursor: pointer; }
footer { border-top: 1px solid var(--line); margin-top: 2rem; padding-top: .8rem; color: var(--soft);
  font-size: .88rem; }
@media (max-width: 40rem) {
  body { padding: 1.2rem .8rem 3rem; }
  th, td { padding: .32rem .4rem; }
  th[scope=row] { position: static; }
}
@media print { .scroll { overflow: visible; } nav { display: none; } }
""".strip()


def wrap_page(title: str, body: str) -> str:
    """Return a whole HTML page."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
